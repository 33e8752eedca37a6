(function () {
  "use strict";
  var LEFT = 132, RIGHT = 986;
  var tip = document.getElementById("tip");
  var charts = Array.from(document.querySelectorAll("svg.chart")).map(function (svg) {
    var data = svg.closest("figure").querySelector("script");
    var line = svg.querySelector("line.grid").cloneNode();
    line.setAttribute("class", "cross");
    line.setAttribute("y1", svg.dataset.top);
    line.setAttribute("y2", Number(svg.dataset.top) + Number(svg.dataset.h));
    line.style.display = "none";
    svg.appendChild(line);
    return { svg: svg, t0: Number(svg.dataset.t0), t1: Number(svg.dataset.t1), line: line,
             timed: !svg.querySelector(".bar"), series: data ? JSON.parse(data.textContent) : [] };
  });
  // The browser's own hints come late; ours say the same at once.
  document.querySelectorAll("svg title").forEach(function (title) {
    title.parentNode.dataset.says = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  });
  function two(n) { return (n < 10 ? "0" : "") + n; }
  function moment(ms, fine) {
    var s = Math.floor(ms / 1000), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
    var text = (h ? h + ":" + two(m) : m) + ":" + two(s % 60);
    return fine ? text + "." + Math.floor(ms % 1000 / 100) : text;
  }
  function number(n) { return n.toLocaleString("en-US", { maximumFractionDigits: 1 }); }
  function cross(t) {
    charts.forEach(function (c) {
      var inside = c.timed && t !== null && t >= c.t0 && t <= c.t1;
      c.line.style.display = inside ? "" : "none";
      if (inside) {
        var x = LEFT + (t - c.t0) / (c.t1 - c.t0) * (RIGHT - LEFT);
        c.line.setAttribute("x1", x);
        c.line.setAttribute("x2", x);
      }
    });
  }
  function state(event) {
    var mark = event.target.closest(".row path");
    var key = mark && document.querySelector("#rows .legend ." + mark.getAttribute("class"));
    return key ? key.parentNode.textContent : "";
  }
  function show(text, event) {
    tip.textContent = text;
    tip.hidden = !text;
    var wide = tip.offsetWidth, high = tip.offsetHeight;
    var x = event.clientX + 16, y = event.clientY + 16;
    if (x + wide > innerWidth - 8) { x = event.clientX - wide - 12; }
    if (y + high > innerHeight - 8) { y = event.clientY - high - 12; }
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = Math.max(4, y) + "px";
  }
  function over(c, event) {
    var box = c.svg.getBoundingClientRect();
    var part = ((event.clientX - box.left) / box.width * c.svg.viewBox.baseVal.width - LEFT) / (RIGHT - LEFT);
    var says = event.target.closest("[data-says]"), lines = [];
    var inside = part >= 0 && part <= 1;
    if (c.timed && inside) {
      var t = c.t0 + part * (c.t1 - c.t0);
      cross(t);
      lines.push("at " + moment(t, c.t1 - c.t0 < 600000));
      c.series.forEach(function (s) {
        var v = s.v[Math.min(s.v.length - 1, Math.floor(part * s.v.length))];
        if (v) { lines.push(s.n + ": " + number(v) + (s.u ? " " + s.u : "")); }
      });
      if (says && state(event)) { lines.push(state(event)); }
    } else { cross(null); }
    if (says) { lines.push(says.dataset.says); }
    show(lines.join("\n"), event);
  }
  function away() { cross(null); tip.hidden = true; }
  charts.forEach(function (c) {
    c.svg.addEventListener("pointermove", function (event) { over(c, event); });
    c.svg.addEventListener("pointerleave", away);
  });
})();
