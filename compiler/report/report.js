// The report's page: draws the charts and joins them. `html.py` puts this behind Vega, `sort.js` and `const charts = {...}, ramps = {...}`.
"use strict";

const views = {}, boxes = document.querySelectorAll("#graph g[data-layer]");
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const PADDING = { left: 5, right: 5, bottom: 5, top: 5 };
const narrow = innerWidth < 700; // legends then stand below each other
const ink = dark ? "#e4e8ec" : "#1d2329", paper = dark ? "#14171b" : "#ffffff", line = dark ? "#363d45" : "#d8dde3";
const look = {
  background: null, font: "system-ui, sans-serif", view: { stroke: line },
  axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal" },
  axisX: { labelSeparation: 12 }, // numbers that touch read as one
  legend: { labelColor: ink, titleColor: ink, layout: { top: { direction: narrow ? "vertical" : "horizontal", anchor: "start" } } }, text: { color: ink },
  style: { halo: { fill: paper, stroke: paper, strokeWidth: 5, strokeJoin: "round" } },
  range: { ramp: ramps[dark ? "dark" : "light"] },
};

function problem(error) {
  const place = document.getElementById("problem");
  place.textContent = `This page could not be drawn whole: ${error.message || error}`;
  place.hidden = false;
}

// A chart's signal for the shown clocks is named after the selection and its field.
const SHOWN = "zoom_begin";

function zoomTogether(name, clocks) {
  for (const [other, view] of Object.entries(views)) {
    if (other === name || !hasSignal(view, SHOWN)) continue;
    if (JSON.stringify(view.signal(SHOWN)) !== JSON.stringify(clocks)) view.signal(SHOWN, clocks).runAsync();
  }
}

function hasSignal(view, name) {
  return name in view.getState({ signals: (signal) => signal === name, data: () => false }).signals;
}

const DRAG = 4; // pixels between pressing and releasing, from which it is no click
const TWICE = 300; // milliseconds in which a second click makes a double click, which does not show the row
let pressed = null, showing = 0;

function clicked(event, item) {
  clearTimeout(showing);
  if (pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) > DRAG) return;
  const row = choose((item && item.datum && item.datum.layer) || 0);
  if (row) showing = setTimeout(() => row.scrollIntoView({ block: "center", behavior: "smooth" }), TWICE);
}

// Marks a layer in all charts and in the table, and returns its row. The same layer again, or 0, marks none.
function choose(layer) {
  const before = document.querySelector("table.layers tr.chosen");
  if (before && Number(before.dataset.layer) === layer) layer = 0;
  if (before) before.classList.remove("chosen");
  for (const box of boxes) box.classList.toggle("chosen", layer !== 0 && Number(box.dataset.layer) === layer);
  for (const view of Object.values(views)) view.signal("chosen", layer).runAsync();
  const row = document.querySelector(`table.layers tr[data-layer="${layer}"]`);
  if (!row) return null;
  row.classList.add("chosen");
  if (row.dataset.copy) copy(row.dataset.copy);
  return row;
}

// A page that was opened as a file may have no clipboard; then the text can be copied by hand from the line that names it.
async function copy(text) {
  const place = document.getElementById("copied");
  try {
    await navigator.clipboard.writeText(text);
    place.textContent = `copied: ${text}`;
  } catch {
    place.textContent = `--config ${text}`;
  }
}

async function draw() {
  for (const [name, spec] of Object.entries(charts)) {
    const place = document.getElementById(name);
    if (narrow && name === "array") spec.padding = { ...PADDING, top: 45 }; // its legend of nine entries takes five rows
    const { view } = await vegaEmbed(place, spec, { actions: false, renderer: "canvas", config: look });
    views[name] = view;
    place.addEventListener("mousedown", (event) => { pressed = event; }, true);
    view.addEventListener("click", clicked);
    if (hasSignal(view, SHOWN)) view.addSignalListener(SHOWN, (_, clocks) => zoomTogether(name, clocks));
    place.dataset.marks = marks(view.scenegraph().root);
  }
  for (const row of document.querySelectorAll("table.layers tbody tr")) {
    row.addEventListener("click", () => choose(Number(row.dataset.layer)));
  }
  for (const box of boxes) box.addEventListener("click", () => choose(Number(box.dataset.layer)));
  document.body.dataset.drawn = "all";
}

// How many bars, dots and lines a chart shows.
function marks(item) {
  const own = ["rect", "symbol", "line", "rule"].includes(item.marktype) && item.role === "mark" ? item.items.length : 0;
  return own + (item.items || []).reduce((sum, part) => sum + (part.items || part.marktype ? marks(part) : 0), 0);
}

addEventListener("error", (event) => problem(event));
addEventListener("unhandledrejection", (event) => problem(event.reason));
draw();
