// The labels in a file are read here, and sent as if they were typed.
"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("file").addEventListener("change", async ({ target }) => {
    if (target.files.length) document.getElementById("arms").value = await target.files[0].text();
  });
});
