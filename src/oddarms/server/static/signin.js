// The link that the server prints has the token behind "#", which browsers send to nobody.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const token = location.hash.slice(1);
  const field = document.getElementById("token");
  const goOn = document.getElementById("go-on");
  if (!field || document.getElementById("problem")) return;
  if (!token) {
    if (goOn) location.replace(goOn.href);
    // another site's link led here, and the browser kept the cookie back; with ours it sends it
    else if ("askAgain" in field.form.dataset) location.replace(location.href);
    return;
  }
  history.replaceState(null, "", location.pathname + location.search);
  field.value = decodeURIComponent(token);
  if ("atOnce" in field.form.dataset) field.form.submit(); // else another site's link led here
});
