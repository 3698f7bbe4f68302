// Pages before single functions: who searches for "margin" wants the guide first.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 1,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
