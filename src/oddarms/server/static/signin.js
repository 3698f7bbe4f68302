// The link that the server prints has the token behind "#", which browsers send to nobody.
"use strict";
(() => {
  function take(problem) {
    const token = location.hash.slice(1);
    const field = document.getElementById("token");
    if (!field || problem) return;
    if (!token) {
      askAgain(field.form);
      return;
    }
    history.replaceState(null, "", location.pathname + location.search);
    field.value = decodeURIComponent(token);
    if ("atOnce" in field.form.dataset) field.form.submit(); // else another site's link led here
  }
  function askAgain(form) {
    const goOn = document.getElementById("go-on");
    if (goOn) location.replace(goOn.href);
    // another site's link led here, and the browser kept the cookie back; with ours it sends it
    else if ("askAgain" in form.dataset) location.replace(location.href);
  }
  document.addEventListener("DOMContentLoaded", () => take(document.getElementById("problem")));
  // the link was opened in a tab that shows this page already
  window.addEventListener("hashchange", () => take(null));
})();
