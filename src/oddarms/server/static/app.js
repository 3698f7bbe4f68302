// The study pages, live: the interval picture on a canvas, plots by uPlot, a look every second.
// All of it is an addition: without it the pages can be read, searched and used as well.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const grouped = (value) => value.toLocaleString("en");
  const short = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(3)).toLocaleString("en"));
  const KINDS = { high: ["▲", "outlier above"], low: ["▼", "outlier below"], undecided: ["◇", "undecided"], normal: ["●", "normal"] };

  async function load(address) {
    const answer = await fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin" });
    if (!answer.ok) throw new Error("HTTP " + answer.status);
    return answer.json();
  }

  function failed(place, error) {
    const text = $(".loading", place) || place.appendChild(Object.assign(document.createElement("p"), { className: "loading" }));
    text.hidden = false;
    text.textContent = "This could not be loaded (" + error.message + "). It is tried again with the next result.";
  }

  document.documentElement.classList.add("js");

  // What goes wrong with a request, said where it is seen

  function complain(status, wanted = location.href) {
    const home = $("#trouble").dataset.home;
    const [text, words, address] =
      status === 401 ? ["You are not signed in any more.", "Sign in again", wanted]
      : status === 404 ? ["The study is gone: somebody has deleted it.", "All studies", home]
      : status ? ["The server could not do that (HTTP " + status + "). What you see is as it was before.", "Try again", wanted]
      : ["The server does not answer. What you see is as it was before; it is asked again every few seconds.", "Try again", wanted];
    const line = Object.assign(document.createElement("p"), { textContent: text + " " });
    line.append(Object.assign(document.createElement("a"), { textContent: words, href: address }));
    $("#trouble").replaceChildren(line);
    $("#trouble").hidden = false;
  }

  // Parts of the page are replaced: after a search or a link in a list, and when the study has changed

  let asked = null; // the request under way; one of a person goes before those that the page makes itself

  async function replaceParts(address, { byItself = false, push = false } = {}) {
    if (byItself && asked && !asked.byItself) return;
    if (asked) asked.control.abort();
    const mine = (asked = { byItself, control: new AbortController() });
    document.body.classList.toggle("asking", !byItself);
    let answer, text;
    try {
      answer = await fetch(address, { credentials: "same-origin", signal: mine.control.signal });
      text = await answer.text();
    } catch {
      if (asked !== mine) return;
      if (byItself) asked = null;
      else {
        complain(0, address);
        setTimeout(() => { if (asked === mine) replaceParts(address, { push }); }, 3000);
      }
      return;
    }
    if (asked !== mine) return;
    asked = null;
    document.body.classList.remove("asking");
    if (!answer.ok) {
      if (!byItself || answer.status === 401 || answer.status === 404) complain(answer.status, address);
      return;
    }
    $("#trouble").hidden = true;
    if (push) history.pushState(null, "", address);
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const focused = document.activeElement.id;
    document.querySelectorAll("[data-part]").forEach((part) => {
      const found = fresh.getElementById(part.id);
      if (!found) return;
      found.querySelectorAll("details[id]").forEach((one) => { if (opened.has(one.id)) one.open = opened.get(one.id); });
      part.replaceWith(found);
    });
    if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
    document.dispatchEvent(new Event("replaced"));
  }

  const opened = new Map(); // what somebody has opened or closed stays so
  document.addEventListener("toggle", ({ target }) => { if (target.id) opened.set(target.id, target.open); }, true);

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-part] :is(.chips, thead, .pages) a");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    replaceParts(link.href, { push: true });
  });

  function search() {
    const address = new URL(location.href);
    address.searchParams.delete("page");
    address.searchParams.set("q", $("#q").value);
    replaceParts(address.href, { push: true });
  }

  let typed;
  document.addEventListener("input", ({ target }) => { if (target.id === "q") { clearTimeout(typed); typed = setTimeout(search, 250); } });
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("role") !== "search") return;
    event.preventDefault();
    clearTimeout(typed);
    search();
  });
  window.addEventListener("popstate", () => {
    $("#q").value = new URL(location.href).searchParams.get("q") || "";
    replaceParts(location.href);
  });

  // The interval picture

  class Picture {
    constructor(figure) {
      this.figure = figure;
      this.canvas = $("canvas", figure);
      this.slider = $("#explore", figure);
      this.output = $("#readout", figure);
      this.link = $("#goto", figure);
      this.data = null;
      this.at = null;
      this.touched = false;
      this.canvas.addEventListener("pointermove", (event) => this.point(event));
      this.canvas.addEventListener("pointerdown", (event) => this.point(event));
      this.canvas.addEventListener("pointerleave", () => { if (!this.touched) { this.at = null; this.draw(); } });
      this.canvas.addEventListener("click", () => { if (!this.link.hidden) this.link.click(); });
      this.slider.addEventListener("input", () => { this.touched = true; this.look(Number(this.slider.value)); });
      let due;
      new ResizeObserver(() => { clearTimeout(due); due = setTimeout(() => this.resized(), 120); }).observe(figure);
    }

    get left() { return this.canvas.clientWidth < 500 ? 38 : 48; }
    get inner() { return Math.max(this.canvas.clientWidth - this.left - 8, 10); }

    async refresh() {
      const width = Math.round(this.inner) || 600;
      try {
        this.data = await load(this.figure.dataset.source + "?width=" + width);
      } catch (error) {
        return failed(this.figure, error);
      }
      this.width = width;
      $(".loading", this.figure).hidden = true;
      this.slider.max = this.data.starts.length - 1;
      if (Math.abs(this.inner - width) > 40) return this.refresh();
      this.draw();
      if (this.at !== null) this.look(Math.min(this.at, this.data.starts.length - 1));
    }

    resized() {
      if (!this.data || !this.canvas.clientWidth) return;
      if (Math.abs(this.inner - this.width) > 40 && this.data.n > 100) this.refresh();
      else this.draw();
    }

    x(column) { return this.left + ((column + 0.5) * this.inner) / this.data.starts.length; }
    y(value) {
      const [low, high] = this.data.range;
      return 10 + (this.height - 36) * (1 - (value - low) / (high - low || 1));
    }

    draw() {
      const { canvas, data } = this;
      const ratio = window.devicePixelRatio || 1;
      this.height = canvas.clientHeight;
      canvas.width = Math.round(canvas.clientWidth * ratio);
      canvas.height = Math.round(this.height * ratio);
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "12px system-ui, sans-serif";
      this.axes(pen);
      const step = this.inner / data.starts.length;
      if (step < 5) this.bands(pen, step);
      this.thresholds(pen);
      if (step < 5) this.means(pen, step);
      else this.whiskers(pen, step);
      this.lines(pen);
      if (this.at !== null) this.cross(pen);
    }

    axes(pen) {
      const [low, high] = this.data.range;
      const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
        const y = Math.round(this.y(value)) + 0.5;
        pen.strokeStyle = colour("line");
        pen.lineWidth = 1;
        pen.beginPath(); pen.moveTo(this.left, y); pen.lineTo(this.left + this.inner, y); pen.stroke();
        pen.fillStyle = colour("faint");
        pen.fillText(short(Math.abs(value) < step / 1e6 ? 0 : value), this.left - 6, y);
      }
      pen.textBaseline = "alphabetic";
      pen.textAlign = "left";
      pen.fillText("lowest mean", this.left, this.height - 6);
      pen.textAlign = "right";
      pen.fillText("highest mean", this.left + this.inner, this.height - 6);
      pen.textAlign = "center";
      if (this.inner > 420) pen.fillText(grouped(this.data.n) + " arms", this.left + this.inner / 2, this.height - 6);
    }

    thresholds(pen) {
      for (const [, low, high] of Object.values(this.data.thresholds)) {
        const top = this.y(high), bottom = this.y(low);
        pen.globalAlpha = 0.45;
        pen.fillStyle = colour("threshold");
        pen.fillRect(this.left, top, this.inner, Math.max(bottom - top, 1.5));
        pen.globalAlpha = 1;
      }
    }

    lines(pen) {
      for (const [estimate] of Object.values(this.data.thresholds)) {
        pen.strokeStyle = colour("threshold-line");
        pen.lineWidth = 1.5;
        pen.setLineDash([7, 4]);
        pen.beginPath(); pen.moveTo(this.left, this.y(estimate)); pen.lineTo(this.left + this.inner, this.y(estimate)); pen.stroke();
        pen.setLineDash([]);
      }
    }

    kindOf(column) {
      const counts = this.data.counts;
      return counts.high[column] ? "high" : counts.low[column] ? "low" : counts.undecided[column] ? "undecided" : "normal";
    }

    bands(pen, step) {
      const { data } = this;
      data.starts.forEach((_, column) => {
        const x = Math.floor(this.left + column * step), next = Math.floor(this.left + (column + 1) * step);
        const top = this.y(data.upper[column]);
        pen.fillStyle = colours(this.kindOf(column) + "-pale");
        pen.fillRect(x, top, Math.max(next - x, 1), Math.max(this.y(data.lower[column]) - top, 1));
      });
    }

    means(pen, step) {
      const { data } = this;
      const wide = Math.max(step, 1);
      pen.fillStyle = colours("normal");
      data.starts.forEach((_, column) => {
        if (data.least[column] === null) return;
        const top = this.y(data.most[column]);
        pen.fillRect(this.left + column * step, top - 1, wide, Math.max(this.y(data.least[column]) - top, 0) + 2);
      });
      for (const kind of ["undecided", "low", "high"]) {
        const { at, low, high } = data.marks[kind];
        let last = -99;
        at.forEach((column, i) => {
          const x = this.x(column);
          pen.fillStyle = colours(kind);
          const top = this.y(high[i]);
          pen.fillRect(x - wide / 2, top - 1, wide, Math.max(this.y(low[i]) - top, 0) + 2);
          if (x - last < 9) return;
          last = x;
          mark(pen, kind, x, this.y((low[i] + high[i]) / 2), 4);
        });
      }
    }

    whiskers(pen, step) {
      const { data } = this;
      const size = Math.min(Math.max(step * 0.3, 2.5), 5.5);
      data.starts.forEach((_, column) => {
        const x = this.x(column), kind = this.kindOf(column);
        pen.strokeStyle = colours(kind);
        pen.globalAlpha = 0.55;
        pen.lineWidth = Math.min(Math.max(step / 6, 1), 2.5);
        pen.beginPath(); pen.moveTo(x, this.y(data.lower[column])); pen.lineTo(x, this.y(data.upper[column])); pen.stroke();
        pen.globalAlpha = 1;
        if (data.least[column] !== null) mark(pen, kind, x, this.y(data.least[column]), size);
      });
    }

    cross(pen) {
      const x = this.x(this.at);
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 1;
      pen.setLineDash([2, 3]);
      pen.beginPath(); pen.moveTo(x, 8); pen.lineTo(x, this.height - 24); pen.stroke();
      pen.setLineDash([]);
    }

    point(event) {
      if (!this.data) return;
      const x = event.clientX - this.canvas.getBoundingClientRect().left - this.left;
      const column = Math.floor((x * this.data.starts.length) / this.inner);
      if (column >= 0 && column < this.data.starts.length) this.look(column);
    }

    look(column) {
      const { data } = this;
      this.at = column;
      this.slider.value = column;
      const first = data.starts[column], end = column + 1 < data.starts.length ? data.starts[column + 1] : data.n;
      const single = end - first === 1;
      const what = Object.keys(KINDS).filter((kind) => data.counts[kind][column])
        .map((kind) => (single ? KINDS[kind][0] + " " : KINDS[kind][0] + " " + grouped(data.counts[kind][column]) + " ") + KINDS[kind][1]).join(", ");
      const name = single && data.labels ? data.labels[first] : single ? "Arm " + grouped(first + 1) + " by mean" : "Arms " + grouped(first + 1) + " to " + grouped(end) + " by mean";
      const mean = data.least[column] === null ? "no samples yet" : single ? "mean " + short(data.least[column]) : "means " + short(data.least[column]) + " to " + short(data.most[column]);
      const text = name + ": " + what + ", " + mean + ", " + (single ? "interval " : "intervals within ") + short(data.lower[column]) + " to " + short(data.upper[column]);
      this.output.textContent = text;
      this.slider.setAttribute("aria-valuetext", text);
      this.link.hidden = false;
      if (single && data.arms) {
        this.link.href = this.figure.dataset.arm.replace(/0$/, data.arms[first]);
        this.link.textContent = "Open this arm";
      } else {
        const rank = Math.floor(first / Number(this.figure.dataset.rows)) + 1;
        this.link.href = this.figure.dataset.arms + (rank > 1 ? "&page=" + rank : "") + "#arms";
        this.link.textContent = "Show in the table";
      }
      this.draw();
    }
  }

  const known = new Map();
  function colours(name) {
    if (!known.has(name)) known.set(name, colour(name));
    return known.get(name);
  }

  function mark(pen, kind, x, y, size) {
    pen.beginPath();
    if (kind === "high") { pen.moveTo(x, y - size); pen.lineTo(x + size, y + size * 0.8); pen.lineTo(x - size, y + size * 0.8); }
    else if (kind === "low") { pen.moveTo(x, y + size); pen.lineTo(x + size, y - size * 0.8); pen.lineTo(x - size, y - size * 0.8); }
    else if (kind === "undecided") { pen.moveTo(x, y - size); pen.lineTo(x + size, y); pen.lineTo(x, y + size); pen.lineTo(x - size, y); }
    else pen.arc(x, y, size * 0.85, 0, 7);
    pen.closePath();
    if (kind === "undecided") {
      pen.fillStyle = colours("card"); pen.fill();
      pen.strokeStyle = colours("undecided"); pen.lineWidth = 1.4; pen.stroke();
    } else {
      pen.fillStyle = colours(kind); pen.fill();
      pen.strokeStyle = colours("card"); pen.lineWidth = 0.6; pen.stroke();
    }
  }

  // Plots

  const line = (label, name, more = {}) => ({ label, stroke: colour(name), width: 2, points: { show: false }, value: (_, v) => (v === null || v === undefined ? "" : short(v)), ...more });
  const pulls = { label: "pulls", value: (_, v) => (v === null || v === undefined ? "" : grouped(v)) };
  const steps = () => uPlot.paths.stepped({ align: 1 });
  const PLOTS = {
    threshold: (d) => ({ data: [d.pulls, d.threshold_upper, d.threshold_lower, d.threshold], log: true, series: [pulls, line("upper end", "threshold-line", { width: 1, dash: [4, 3], key: "threshold" }), line("lower end", "threshold-line", { width: 1, dash: [4, 3], key: "threshold" }), line("threshold", "ink")], bands: [{ series: [1, 2], fill: colour("threshold") + "59" }], within: d.bounds }),
    evidence: (d) => ({ data: [d.pulls, d.evidence_upper_quartile, d.evidence_lower_quartile, d.evidence_median, d.evidence_least], log: true, series: [pulls, line("upper quarter", "normal", { width: 1, key: "normal-pale" }), line("lower quarter", "normal", { width: 1, key: "normal-pale" }), line("median arm", "normal"), line("weakest arm", "high", { dash: [6, 3] })], bands: [{ series: [1, 2], fill: colour("normal-pale") + "99" }] }),
    decided: (d) => ({ data: [d.decided.pulls, d.decided.normal, d.decided.outliers], least: 2, zero: true, whole: true, series: [pulls, line("normal", "normal", { paths: steps() }), line("outliers", "high", { dash: [6, 3], paths: steps() })] }),
    "arm-mean": (d) => ({ data: [d.places, d.upper, d.lower, d.mean, ...Object.values(d.thresholds).map((t) => d.places.map(() => t))], series: [{ ...pulls, label: "rewards" }, line("upper end", "normal", { width: 1, key: "normal-pale" }), line("lower end", "normal", { width: 1, key: "normal-pale" }), line("mean", "normal"), ...Object.keys(d.thresholds).map((side) => line(side + " threshold", "threshold-line", { dash: [7, 4] }))], bands: [{ series: [1, 2], fill: colour("normal-pale") + "99" }], log: d.total > 50, within: d.bounds }),
    "arm-rewards": (d) => ({ data: [d.rewards.map((_, i) => d.first + i), d.rewards], series: [{ ...pulls, label: "no." }, line("reward", "normal", { width: 0, paths: () => null, points: { show: true, size: 5, fill: colour("normal"), stroke: colour("normal") } })], range: d.bounds }),
  };

  function decades(_, __, low, high) {
    const ticks = (digits) => {
      const found = [];
      for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
        for (const digit of digits) if (digit * power >= low && digit * power <= high) found.push(digit * power);
      return found;
    };
    return [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]].map(ticks).find((found) => found.length > 2) || [low, high];
  }

  const WHOLE = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

  function wait(place, text) {
    place.replaceChildren(Object.assign(document.createElement("p"), { className: "loading", textContent: text }));
  }

  function plot(place, data) {
    const made = PLOTS[place.dataset.plot](data);
    const drawn = made.data[0].length >= (made.least || 1) && Boolean(made.data[1]);
    place.closest("figure").hidden = !drawn;
    if (!drawn) return;
    const small = (_, values) => values.map((v) => (v === null ? "" : Math.abs(v) >= 1e6 ? short(v / 1e6) + "M" : Math.abs(v) >= 1e4 ? short(v / 1e3) + "k" : short(v)));
    const axis = () => ({ stroke: colour("faint"), font: "12px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, values: small });
    const pad = (_, low, high) => { const edge = (high - low || Math.abs(high) || 1) * 0.06; const ends = made.zero ? [0, Math.max(high + edge, 1)] : [low - edge, high + edge]; return made.within ? [Math.max(ends[0], made.within[0]), Math.min(ends[1], made.within[1])] : ends; };
    const span = made.range && [made.range[0] - 0.08 * (made.range[1] - made.range[0]), made.range[1] + 0.08 * (made.range[1] - made.range[0])];
    const log = made.log && made.data[0][0] >= 1 && made.data[0].length > 1;
    const options = {
      width: place.clientWidth, height: 180, series: made.series, bands: made.bands || [], legend: { live: true, markers: { width: 2, stroke: (_, i) => made.series[i].stroke, fill: (_, i) => (made.series[i].key ? colour(made.series[i].key) : made.series[i].dash ? colour("card") : made.series[i].stroke), dash: (_, i) => (made.series[i].dash ? "dashed" : "solid") } },
      scales: { x: { time: false, range: (_, low, high) => [low, high > low ? high : low + 1], ...(log ? { distr: 3 } : {}) }, y: { range: span || pad } },
      axes: [{ ...axis(), size: 28, incrs: WHOLE, ...(log ? { splits: decades, filter: (_, values) => values } : {}) }, { ...axis(), size: 44, ...(made.whole ? { incrs: WHOLE } : {}) }], cursor: { y: false, drag: { x: false, y: false } },
    };
    const keep = place.plotted;
    if (keep && keep.kind === log && keep.series.length === made.series.length && place.clientWidth === keep.width) keep.setData(made.data);
    else {
      if (keep) keep.destroy();
      place.replaceChildren();
      place.plotted = new uPlot(options, made.data, place);
      place.plotted.kind = log;
    }
  }

  const series = new Map();
  async function replot(redraw = false) {
    const places = [...document.querySelectorAll("[data-plot]")];
    const sources = new Set(places.map((place) => place.closest("[data-source]").dataset.source));
    for (const source of sources) {
      const mine = places.filter((place) => place.closest("[data-source]").dataset.source === source);
      try {
        if (!redraw || !series.has(source)) series.set(source, await load(source));
        mine.forEach((place) => {
          if (redraw && place.plotted) { place.plotted.destroy(); place.plotted = null; }
          plot(place, series.get(source));
        });
      } catch (error) { mine.forEach((place) => failed(place, error)); }
    }
  }

  // Live

  // asks every second whether the study is as the page shows it
  async function follow(address, refresh) {
    const sign = $("#live");
    const show = (state, text) => { sign.hidden = false; sign.dataset.state = state; sign.textContent = text; };
    for (;;) {
      if (!document.hidden) {
        const answer = await fetch(address, { credentials: "same-origin" })
          .then(async (found) => ({ ok: found.ok, status: found.status, pulse: found.ok && (await found.json()).pulse }))
          .catch(() => ({ status: 0 }));
        if (answer.ok) {
          show("on", "live");
          if ($("[data-now]").dataset.now !== answer.pulse) await refresh();
        } else if (answer.status === 401 || answer.status === 404) {
          show("off", answer.status === 404 ? "the study is gone" : "not live");
          const failed = $("#trouble").hidden ? undefined : $("#trouble a").href; // what a person wanted
          return complain(answer.status, failed);
        } else show("off", "reconnecting …");
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  let told = null, toldAt = 0;
  function announce() {
    const text = $("[data-news]").dataset.news;
    if (told !== null && text !== told && performance.now() - toldAt > 5000) { $("#news").textContent = text; toldAt = performance.now(); told = text; }
    if (told === null) told = text;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const study = $("#study");
    if (!study) return;
    const figure = $("#picture");
    const picture = figure && new Picture(figure);
    document.querySelectorAll("[data-plot]").forEach((place) => wait(place, "Loading …"));
    if (picture) picture.refresh();
    replot();
    const refresh = () => Promise.all([replaceParts(location.href, { byItself: true }), picture && picture.refresh(), replot()]);
    document.addEventListener("replaced", announce);
    announce();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { known.clear(); if (picture && picture.data) picture.draw(); replot(true); });
    let due;
    window.addEventListener("resize", () => { clearTimeout(due); due = setTimeout(() => replot(true), 150); });
    follow(study.dataset.pulse, refresh);
  });
})();
