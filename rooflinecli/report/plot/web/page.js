"use strict";
(() => {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const data = JSON.parse(document.getElementById("data").textContent);
  const plot = document.getElementById("plot");
  const root = document.documentElement;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  let theme = prefersDark.matches ? "dark" : "light";
  let isolated = "";
  let placing = false;

  // --- what is shown ---------------------------------------------------------------------------
  const chosen = {};
  const controls = document.getElementById("controls");
  for (const group of scene.controls) {
    chosen[group.key] = new Set(group.options.map((option) => option.value));
    if (group.options.length < 2) continue;
    const set = document.createElement("fieldset");
    set.appendChild(Object.assign(document.createElement("legend"), { textContent: group.title }));
    for (const option of group.options) {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true, value: option.value });
      box.dataset.key = group.key;
      box.addEventListener("change", () => {
        if (box.checked) chosen[group.key].add(option.value);
        else chosen[group.key].delete(option.value);
        draw();
      });
      label.appendChild(box);
      if (option.level) {
        const swatch = Object.assign(document.createElement("span"), { className: "swatch" });
        swatch.dataset.level = option.level;
        label.appendChild(swatch);
      }
      label.appendChild(document.createTextNode((option.glyph ? option.glyph + " " : "") + option.text));
      if (option.title) label.title = option.title;
      set.appendChild(label);
    }
    controls.appendChild(set);
  }

  const has = (key, value) => value === null || value === undefined || !chosen[key] || chosen[key].has(value);
  function visible(meta) {
    if (!has("gpu", meta.gpu) || !has("run", meta.run) || !has("dtype", meta.dtype)) return false;
    if (meta.kind === "points" || meta.kind === "tie") {
      return has("algorithm", meta.algorithm) && has("measured", meta.measured) && meta.levels.some((level) => has("level", level));
    }
    return meta.levels.some((level) => has("level", level));
  }

  // --- colours -----------------------------------------------------------------------------------
  const palette = () => scene.palettes[theme];
  function colour(ink) {
    const [name, tint] = ink;
    const base = palette().levels[name] || palette()[name];
    return mix(base, palette().paper, tint);
  }
  function mix(one, other, share) {
    const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
    const both = [1, 3, 5].map((at) => Math.round(part(one, at) * (1 - share) + part(other, at) * share));
    return "#" + both.map((value) => value.toString(16).padStart(2, "0")).join("");
  }

  function traces() {
    return scene.traces.map((spec) => {
      const ink = colour(spec.ink);
      const trace = { ...spec.trace, visible: visible(spec.meta), name: spec.name };
      if (trace.line) trace.line = { ...trace.line, color: ink };
      if (trace.fillcolor) trace.fillcolor = ink + "22";
      if (trace.marker) {
        const faded = spec.kernels.map((kernel) => (isolated === "" || String(kernel) === isolated ? 1 : 0.12));
        const rims = spec.above.map((over) => (over ? palette().alarm : ink));
        trace.marker = {
          ...trace.marker,
          color: spec.meta.measured === "measured" ? ink : palette().paper,
          opacity: faded,
          line: { color: rims, width: spec.above.map((over) => (over ? 3 : 1.8)) },
        };
        if (trace.error_x) trace.error_x = { ...trace.error_x, color: ink };
        if (trace.line && isolated !== "") trace.line = { ...trace.line, color: mix(ink, palette().paper, 0.75) };
      } else if (spec.meta.kind === "tie" && isolated !== "" && String(spec.kernels[0]) !== isolated) {
        trace.visible = false;
      }
      return trace;
    });
  }

  // plotly reads some markup in words; names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const small = () => plot.clientWidth < 600;
  function layout() {
    const now = palette();
    const axis = (title, span) => ({
      type: "log", range: span.slice(), title: { text: title, standoff: 6, font: { size: small() ? 11 : 13 } },
      gridcolor: now.grid, linecolor: now.soft, tickcolor: now.soft, ticks: "outside", tickformat: "~g", zeroline: false, showline: true,
      dtick: small() && span[1] - span[0] > 4 ? 2 : 1, exponentformat: "none", automargin: true, minor: { ticks: "outside", ticklen: 3 },
    });
    return {
      paper_bgcolor: now.paper, plot_bgcolor: now.paper, font: { color: now.ink, size: small() ? 10 : 12 },
      hovermode: "closest", hoverdistance: 24, showlegend: false, dragmode: small() ? false : "zoom",
      margin: small() ? { l: 44, r: 8, t: 8, b: 40 } : { l: 64, r: 16, t: 10, b: 48 },
      hoverlabel: { bgcolor: mix(now.paper, now.ink, 0.06), bordercolor: now.soft, font: { color: now.ink, size: 12 }, align: "left" },
      xaxis: axis(small() ? "intensity (FLOP/B)" : scene.x_label, scene.x),
      yaxis: axis(scene.y_label, scene.y),
      annotations: [],
    };
  }

  // --- words on the lines: their angle and place follow every zoom and resize ----------------------
  const context = document.createElement("canvas").getContext("2d");
  function corners(box) {
    const cos = Math.cos(box.angle), sin = Math.sin(box.angle);
    return [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) => {
      const dx = (a * box.w) / 2, dy = (b * box.h) / 2;
      return [box.x + dx * cos - dy * sin, box.y + dx * sin + dy * cos];
    });
  }
  function apart(one, other) {
    for (const shape of [one, other]) {
      for (let i = 0; i < shape.length; i += 1) {
        const [ax, ay] = shape[i], [bx, by] = shape[(i + 1) % shape.length];
        const project = (points) => points.map(([x, y]) => x * (ay - by) + y * (bx - ax));
        const ours = project(one), theirs = project(other);
        if (Math.max(...ours) <= Math.min(...theirs) || Math.max(...theirs) <= Math.min(...ours)) return true;
      }
    }
    return false;
  }
  function labels() {
    const full = plot._fullLayout, xa = full.xaxis, ya = full.yaxis;
    const width = xa._length, height = ya._length, size = small() ? 9 : 11;
    const px = (x) => ((Math.log10(x) - xa.range[0]) / (xa.range[1] - xa.range[0])) * width;
    const py = (y) => (1 - (Math.log10(y) - ya.range[0]) / (ya.range[1] - ya.range[0])) * height;
    context.font = `${size}px sans-serif`;
    const placed = [], found = [];
    const dots = [], lines = [];
    for (const spec of scene.traces) {
      if (!visible(spec.meta)) continue;
      if (spec.meta.kind === "points") {
        spec.trace.x.forEach((x, index) => dots.push(corners({ x: px(x), y: py(spec.trace.y[index]), w: 14, h: 14, angle: 0 })));
      } else if (spec.meta.kind === "roof" && !spec.trace.fill) {
        const last = spec.trace.x.length - 1;
        lines.push([[px(spec.trace.x[0]), py(spec.trace.y[0])], [px(spec.trace.x[last]), py(spec.trace.y[last])]]);
      }
    }
    for (const label of scene.labels) {
      if (!visible(label.meta)) continue;
      const point = label.kind === "point";
      const ends = point ? [px(label.x0), py(label.y0), 0, 0] : clipped(px(label.x0), py(label.y0), px(label.x1), py(label.y1), width, height);
      if (ends === null) continue;
      const text = small() ? label.short : label.text;
      const w = context.measureText(text).width + 6, h = size * 1.35;
      const [x0, y0, x1, y1] = ends;
      const angle = label.kind === "slope" ? Math.atan2(y1 - y0, x1 - x0) : 0;
      const places = [];
      if (label.kind === "slope") {
        for (const side of [1, -1]) for (const at of [0.45, 0.6, 0.3, 0.75, 0.2, 0.85]) {
          const off = side * (h / 2 + 3);
          places.push({ x: x0 + at * (x1 - x0) + off * Math.sin(angle), y: y0 + at * (y1 - y0) - off * Math.cos(angle) });
        }
      } else if (label.kind === "flat") {
        for (const left of [0, 0.2, 0.4, 0.6, 0.8, 1]) for (const side of [-1, 1]) {
          places.push({ x: x1 - w / 2 - 4 - left * Math.max(0, x1 - x0 - w), y: y1 + side * (h / 2 + 2) });
        }
      } else if (point) {
        for (const far of [1, 2, 3.5]) for (const [a, b] of [[1, 0.7], [1, 0], [-1, -0.7], [0, 1], [0, -1], [1, -0.7], [-1, 0], [-1, 0.7]]) {
          places.push({ x: x0 + a * (w / 2 + 7 * far), y: y0 + b * (h / 2 + 7 * far) });
        }
      } else {
        for (const up of [0, 1, 2, 3]) for (const side of [1, -1]) {
          places.push({ x: x0 + side * (w / 2 + 3), y: height - 2 - h / 2 - up * (h + 2) });
        }
      }
      let best = null;
      places.forEach((place, rank) => {
        const shape = corners({ ...place, w, h, angle });
        const inside = shape.every(([x, y]) => x >= 0 && y >= 0 && x <= width && y <= height);
        if (!inside || !placed.every((other) => apart(shape, other))) return;
        const under = dots.filter((dot) => !apart(shape, dot)).length, through = lines.filter((line) => !apart(shape, line)).length;
        const cost = rank + 40 * under + 12 * through;
        if (best === null || cost < best.cost) best = { cost, place, shape };
      });
      if (best !== null) {
        const place = best.place;
        placed.push(best.shape);
        found.push({
          xref: "paper", yref: "paper", x: place.x / width, y: 1 - place.y / height, text: plain(text), showarrow: false,
          textangle: (angle * 180) / Math.PI, xanchor: "center", yanchor: "middle", borderpad: 0,
          bgcolor: palette().paper + "c8", font: { size, color: colour(label.ink) },
        });
      }
    }
    return found;
  }
  function clipped(x0, y0, x1, y1, width, height) {
    let from = 0, to = 1;
    for (const [p, q] of [[x0 - x1, x0], [x1 - x0, width - x0], [y0 - y1, y0], [y1 - y0, height - y0]]) {
      if (p === 0) { if (q < 0) return null; continue; }
      const at = q / p;
      if (p < 0) from = Math.max(from, at); else to = Math.min(to, at);
    }
    if (from >= to) return null;
    return [x0 + from * (x1 - x0), y0 + from * (y1 - y0), x0 + to * (x1 - x0), y0 + to * (y1 - y0)];
  }
  function place() {
    if (placing) return;
    placing = true;
    Plotly.relayout(plot, { annotations: labels() }).then(() => { placing = false; });
  }

  // --- drawing -------------------------------------------------------------------------------------
  function dress() {
    root.dataset.theme = theme;
    for (const swatch of document.querySelectorAll(".swatch")) swatch.style.background = palette().levels[swatch.dataset.level];
    const button = document.getElementById("theme");
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(theme === "dark"));
  }
  function draw(fresh) {
    dress();
    const next = layout();
    if (!fresh && plot._fullLayout) {
      next.xaxis.range = plot._fullLayout.xaxis.range.slice();
      next.yaxis.range = plot._fullLayout.yaxis.range.slice();
    }
    return Plotly.react(plot, traces(), next, { responsive: true, displayModeBar: false, doubleClick: false }).then(place);
  }

  draw(true).then(() => {
    plot.on("plotly_relayout", (change) => { if (!("annotations" in change)) place(); });
    plot.on("plotly_click", (event) => {
      const kernel = String(event.points[0].customdata ?? "");
      isolate(kernel === isolated ? "" : kernel);
    });
    plot.on("plotly_doubleclick", () => { draw(true); });
    root.dataset.ready = "yes";
  });
  new ResizeObserver(() => { if (root.dataset.ready) { Plotly.Plots.resize(plot).then(() => draw()); } }).observe(plot);
  prefersDark.addEventListener("change", (event) => { theme = event.matches ? "dark" : "light"; draw(); });

  // --- buttons -------------------------------------------------------------------------------------
  const select = document.getElementById("isolate");
  scene.kernels.forEach((name, index) => {
    select.appendChild(Object.assign(document.createElement("option"), { value: String(index), textContent: name }));
  });
  function isolate(kernel) { isolated = kernel; select.value = kernel; draw(); }
  select.addEventListener("change", () => isolate(select.value));
  document.getElementById("reset").addEventListener("click", () => { isolated = ""; select.value = ""; draw(true); });
  document.getElementById("theme").addEventListener("click", () => { theme = theme === "dark" ? "light" : "dark"; draw(); });
  for (const format of ["png", "svg"]) {
    document.getElementById(format).addEventListener("click", () => {
      // The same size as on the screen, so that the words keep their places, and a title above.
      const head = 52, next = layout(), title = document.querySelector("h1").textContent;
      const under = document.getElementById("subtitle").textContent;
      next.xaxis.range = plot._fullLayout.xaxis.range.slice();
      next.yaxis.range = plot._fullLayout.yaxis.range.slice();
      next.margin.t += head;
      next.title = { text: plain(title), subtitle: { text: plain(under) }, x: 0.02, xanchor: "left", font: { size: 15 } };
      const size = { width: plot.clientWidth, height: plot.clientHeight + head };
      const picture = { data: traces(), layout: { ...next, annotations: labels() } };
      Plotly.downloadImage(picture, { format, filename: "roofline", scale: format === "png" ? 2 : 1, ...size });
    });
  }
  function save(text, type, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  document.getElementById("json").addEventListener("click", () => save(JSON.stringify(data, null, 2) + "\n", "application/json", "roofline.json"));
  document.getElementById("csv").addEventListener("click", () => save(scene.csv, "text/csv", "roofline.csv"));

  // --- words under the picture -----------------------------------------------------------------------
  for (const note of scene.notes) document.getElementById("notes").appendChild(Object.assign(document.createElement("li"), { textContent: note }));
  function fill(table, heads, rows) {
    const line = (cells, tag) => {
      const row = document.createElement("tr");
      for (const cell of cells) row.appendChild(Object.assign(document.createElement(tag), { textContent: cell }));
      return row;
    };
    table.replaceChildren(line(heads, "th"), ...rows.map((cells) => line(cells, "td")));
  }
  fill(document.getElementById("roofs"), ["roof", "GPU", "source", ""], scene.roofs);
  document.getElementById("points").closest("details").addEventListener("toggle", () => {
    const most = 500;
    fill(document.getElementById("points"), scene.point_heads, scene.points.slice(0, most));
  }, { once: true });
})();
