// The console: asks the server every two seconds how it is, draws that, and sends a picture to a model.
import { h, render } from "./preact.mjs";
import htm from "./htm.mjs";

const html = htm.bind(h);
const EVERY = 2000; // milliseconds
const CLASSES = 5;
const BOXES = 200; // that a detector answers at most
const root = document.getElementById("console");
const view = {
  token: sessionStorage.getItem("token") || "",
  asks: document.body.dataset.token === "yes", // the server wants a token
  found: null, // what the server said last
  lost: "", // why it said nothing this time
  said: "", // the answer to what the user has done
  model: "", // for a picture: MODEL/VERSION
  file: null,
  picture: "",
  classes: null,
  boxes: null,
  size: [1, 1], // of the picture, in its own pixels
};
if (view.token) view.asks = false;

const STATES = { READY: "good", ready: "good", serving: "good", LOADING: "wait", UNLOADING: "wait", starting: "wait", resting: "wait", draining: "wait" };
const colour = (state) => STATES[state] || "bad";
const time = (ts) => new Date(ts * 1000).toLocaleTimeString();
const milliseconds = (seconds) => (seconds ? (seconds * 1000).toFixed(1) : "");

async function asked(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (view.token) headers.authorization = `Bearer ${view.token}`;
  const answer = await fetch(path, { ...options, headers });
  const body = await answer.json();
  if (answer.status === 401) {
    sessionStorage.removeItem("token");
    [view.token, view.asks] = ["", true];
  }
  if (!answer.ok) throw new Error(body.error || `the server answered ${answer.status}`);
  return body;
}

async function refresh() {
  if (!view.asks && !document.hidden) {
    try {
      view.found = await asked("v2/console");
      view.lost = "";
    } catch (error) {
      view.lost = error.message;
    }
    draw();
  }
  setTimeout(refresh, EVERY);
}

async function told(path) {
  view.said = "";
  try {
    await asked(path, { method: "POST" });
    view.found = await asked("v2/console");
  } catch (error) {
    view.said = error.message;
  }
  draw();
}

function signIn(event) {
  event.preventDefault();
  view.token = event.target.elements.token.value.trim();
  sessionStorage.setItem("token", view.token);
  view.asks = false;
  view.lost = "";
  asked("v2/console").then((found) => (view.found = found), (error) => (view.lost = error.message)).then(draw);
}

// --- a picture ---

const takers = () =>
  view.found.models.flatMap((model) =>
    model.versions.filter((one) => one.picture && one.state === "READY").map((one) => ({ key: `${model.name}/${one.name}`, model, one })),
  );

function chosen(event) {
  view.file = event.target.files[0] || null;
  if (view.picture) URL.revokeObjectURL(view.picture);
  view.picture = view.file ? URL.createObjectURL(view.file) : "";
  classify();
}

async function classify() {
  const taker = takers().find((one) => one.key === view.model) || takers()[0];
  view.classes = view.boxes = null;
  view.said = "";
  if (view.file && taker) {
    try {
      const found = await answers(taker, new Uint8Array(await view.file.arrayBuffer()));
      if (taker.one.detects) view.boxes = detections(found);
      else view.classes = found.map((output) => ({ name: output.name, rows: output.data.map(ranked) }));
    } catch (error) {
      view.said = error.message;
    }
  }
  draw();
}

async function answers({ model, one }, bytes) {
  const size = new DataView(new ArrayBuffer(4));
  size.setUint32(0, bytes.length, true);
  const input = { name: one.picture, datatype: "BYTES", shape: [1], parameters: { binary_data_size: bytes.length + 4 } };
  const ranks = (name) => (one.detects ? (name === "classes" ? BOXES : 0) : CLASSES);
  const outputs = one.outputs.map((name) => ({ name, parameters: { classification: ranks(name) } }));
  const head = new TextEncoder().encode(JSON.stringify({ inputs: [input], outputs }));
  const answer = await asked(`v2/models/${model.name}/versions/${one.name}/infer`, {
    method: "POST",
    headers: { "inference-header-content-length": String(head.length) },
    body: new Blob([head, size.buffer, bytes]),
  });
  return answer.outputs;
}

// A detector's answer: places without a detection have no text.
function detections(outputs) {
  const { boxes, scores, classes } = Object.fromEntries(outputs.map((output) => [output.name, output.data]));
  const one = (text, place) => ({ ...ranked(text), score: scores[place], box: boxes.slice(4 * place, 4 * place + 4) });
  return classes.flatMap((text, place) => (text ? [one(text, place)] : []));
}

// VALUE:CLASS, or VALUE:CLASS:NAME where the version stores names; a name may have colons too.
function ranked(text) {
  const [value, index, ...name] = text.split(":");
  return { value: Number(value), index, name: name.join(":") };
}

// --- what is drawn ---

const TALL = 82; // height of the highest bar, in the chart's own units
const TIMES = [0, 1 / 3, 2 / 3, 1]; // along the chart, at which the time is written
const NEAR = 2; // bars on either side that must not be higher, so that numbers stay apart

function chart(series) {
  const [width, height, bottom] = [900, 116, 98];
  const step = series[1].ts - series[0].ts;
  const highest = Math.max(...series.map((one) => one.samples / step));
  const most = highest || 1; // an empty chart has an axis too
  const lost = Math.max(...series.map((one) => one.failed + one.refused), 1);
  const bar = width / series.length;
  const rates = series.map((one) => one.samples / step);
  const top = (place) => rates[place] && rates.every((rate, other) => other === place || Math.abs(other - place) > NEAR || rate < rates[place] || (rate === rates[place] && other > place));
  const last = series[series.length - 1].ts + step;
  return html`<p class="dim">${time(series[0].ts)} to ${time(last)}, samples/s, at most ${number(highest)}; red: failed or refused</p>
  <div class="axes"><span class="up dim"><span>${number(most)}</span><span>${number(most / 2)}</span><span>0</span></span>
  <div class="plot"><svg class="chart" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="samples a second">
    ${[bottom, bottom - TALL / 2, bottom - TALL].map((y) => html`<line x1="0" x2=${width} y1=${y} y2=${y} />`)}
    ${series.map((one, place) => {
      const [tall, red] = [(one.samples / step / most) * TALL, one.failed + one.refused];
      const told = `${time(one.ts)}: ${(one.samples / step).toFixed(1)} samples/s, ${one.failed} failed, ${one.refused} refused`;
      return html`<g><title>${told}</title>
        <rect class="samples" x=${place * bar + 1} width=${bar - 2} y=${bottom - tall} height=${tall} />
        ${red ? html`<rect class="lost" x=${place * bar + 1} width=${bar - 2} y=${bottom + 2} height=${3 + (12 * red) / lost} />` : null}</g>`;
    })}
  </svg>
  ${rates.map((rate, place) => top(place) ? html`<span class="top" style=${`left: ${((place + 0.5) * bar * 100) / width}%; bottom: ${100 - ((bottom - (rate / most) * TALL) * 100) / height}%`}>${number(rate)}</span>` : null)}</div>
  <span class="unit dim">samples/s</span><span class="across dim">${TIMES.map((part) => html`<span>${time(series[0].ts + part * (last - series[0].ts))}</span>`)}</span></div>`;
}

function number(value) {
  return value.toFixed(value && value < 1 ? 2 : value < 10 ? 1 : 0);
}

function models(found) {
  const rows = found.models.flatMap((model) => {
    const versions = model.versions.length ? model.versions : [{ name: "", state: "UNAVAILABLE", reason: model.reason, failed: {}, samples: 0, waiting: 0 }];
    return versions.map((one, place) => {
      const role = one.name && one.name === model.default ? "default" : model.canary && one.name === model.canary.version ? `canary, ${model.canary.share * 100} %` : "";
      const failed = Object.entries(one.failed).map(([cause, count]) => `${count} ${cause}`).join(", ");
      return html`<tr data-model=${model.name} data-version=${one.name}>
        <td>${place ? "" : model.name}</td><td>${one.name}</td><td class="state ${colour(one.state)}">${one.state.toLowerCase()}</td><td>${role}</td>
        <td class="number">${one.waiting} of ${model.queue}</td><td class="number">${place ? "" : model.samples_per_second.toFixed(1)}</td>
        <td class="number">${one.samples}</td><td class="number">${milliseconds(one.wait_seconds)}</td><td class="number">${milliseconds(one.run_seconds)}</td>
        <td>${failed}</td><td class="reason">${one.reason || (place ? "" : model.reason)}</td>
        <td>${place ? "" : html`<button onClick=${() => told(`v2/repository/models/${model.name.split(":")[0]}/load`)} title="read the folder again">load</button>`}</td>
      </tr>`;
    });
  });
  const heads = ["model", "version", "state", "", "#waiting", "#samples/s", "#answered", "#wait, ms", "#run, ms", "failed", "reason", ""];
  return table("models", heads, rows);
}

function boards(found) {
  const rows = found.boards.map(
    (one) => html`<tr data-board=${one.name}>
      <td>${one.name}</td><td>${one.kind}</td><td class="state ${colour(one.state)}">${one.state}</td><td class="number">${one.batches}</td>
      <td class="number">${milliseconds(one.outstanding_seconds)}</td><td class="number">${one.failures}</td><td class="number">${one.resets}</td>
      <td class="reason">${one.cause}</td><td><button onClick=${() => told(`v2/boards/${one.name}/reset`)}>reset</button></td>
    </tr>`,
  );
  return table("boards", ["board", "kind", "state", "#batches", "#outstanding, ms", "#failures in a row", "#resets", "cause", ""], rows);
}

function troubles(found) {
  if (!found.troubles.length) return html`<p class="dim">Nothing has failed.</p>`;
  const rows = found.troubles.map((one) => {
    const whom = [one.board && `board ${one.board}`, one.model && `model ${one.model}`, one.version && `version ${one.version}`, one.request_id && `request ${one.request_id}`];
    return html`<tr><td class="time">${time(one.ts)}</td><td class=${one.level === "error" ? "bad" : "wait"}>${one.event}${one.count > 1 ? ` (${one.count} times)` : ""}</td>
      <td>${whom.filter(Boolean).join(", ")}</td><td class="reason">${one.cause}</td></tr>`;
  });
  return table("troubles", ["time", "event", "whom", "cause"], rows);
}

// What counts as a detection, if a request says nothing else.
function counted({ thresholds }) {
  const { least, overlap, labels } = thresholds;
  return html`<p class="dim" id="thresholds">least score ${least}, overlap ${overlap}, labels ${labels}</p>`;
}

function picture() {
  const able = takers();
  if (!able.length) return html`<p class="dim">No version that is ready takes pictures: none stores its preprocessing.</p>`;
  const change = (event) => ((view.model = event.target.value), classify());
  const { one } = able.find(({ key }) => key === view.model) || able[0];
  return html`<div class="try">
      <select aria-label="model and version" onChange=${change}>${able.map((one) => html`<option value=${one.key}>${one.key}</option>`)}</select>
      <input type="file" aria-label="picture" accept="image/jpeg,image/png" onChange=${chosen} />
      ${view.picture ? html`<span class="framed"><img src=${view.picture} alt="the picture" onLoad=${measured} />${frames(view.boxes || [])}</span>` : null}
    </div>
    ${one.detects ? counted(one) : null}
    ${view.boxes && detected(view.boxes)}
    ${(view.classes || []).map(({ name, rows }) => {
      const values = rows.map((row) => row.value);
      const [least, most] = [Math.min(0, ...values), Math.max(...values)];
      const named = rows.some((row) => row.name);
      return html`<table class="classes" data-output=${name}><thead><tr><th>class of ${name}</th>${named ? html`<th>name</th>` : null}
        <th class="number">value</th><th><span class="ends"><span>${least.toPrecision(3)}</span><span>${most.toPrecision(3)}</span></span></th></tr></thead>
        <tbody>${rows.map((row) => html`<tr><td>${row.index}</td>${named ? html`<td class="name">${row.name}</td>` : null}
          <td class="number">${row.value.toPrecision(4)}</td>
          <td><meter min=${least} max=${most > least ? most : least + 1} value=${row.value}></meter></td></tr>`)}</tbody></table>`;
    })}`;
}

function measured(event) {
  view.size = [event.target.naturalWidth, event.target.naturalHeight];
  draw();
}

function frames(boxes) {
  return html`<svg class="frames" viewBox="0 0 ${view.size[0]} ${view.size[1]}" preserveAspectRatio="none" role="img" aria-label="boxes">
    ${boxes.map(({ box: [left, top, right, bottom] }) => html`<rect x=${left} y=${top} width=${right - left} height=${bottom - top} />`)}</svg>`;
}

function detected(boxes) {
  if (!boxes.length) return html`<p class="dim">Nothing is detected.</p>`;
  return table("boxes", ["class", "#score", "left, top, right, bottom"], boxes.map(({ index, name, score, box }) =>
    html`<tr><td>${name || index}</td><td class="number">${score.toPrecision(3)}</td><td>${box.map((edge) => edge.toFixed(0)).join(", ")}</td></tr>`));
}

// On a narrow screen each cell stands with its heading, and the headings' row is away.
function table(name, heads, rows) {
  for (const row of rows) row.props.children.forEach((cell, place) => (cell.props["data-head"] = heads[place].replace("#", "")));
  const cells = heads.map((text) => html`<th class=${text.startsWith("#") ? "number" : ""}>${text.replace("#", "")}</th>`);
  return html`<div class="wide"><table class=${name}><thead><tr>${cells}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

function page() {
  const found = view.found;
  if (view.asks)
    return html`<h1>cnna serve</h1><p class="bad">${view.lost}</p>
      <form onSubmit=${signIn}><label>Token <input name="token" type="password" autocomplete="off" /></label> <button>Show</button></form>`;
  if (!found) return html`<h1>cnna serve</h1><p class="bad">${view.lost}</p>`;
  const state = found.ready ? "ready" : found.state === "serving" ? "not ready" : found.state;
  return html`<header><h1>cnna serve</h1><span class="state ${colour(state)}">${state}</span><span class="bad">${view.lost && `no answer: ${view.lost}`}</span>
      <span class="dim">${found.version}, ${time(found.ts)}</span></header>
    <p class="bad" id="said">${view.said}</p>
    <h2>Throughput</h2>${chart(found.throughput)}
    <h2>Models</h2>${models(found)}
    <h2>Boards</h2>${boards(found)}
    <h2>Try a picture</h2>${picture()}
    <h2>Last failures</h2>${troubles(found)}`;
}

function draw() {
  render(page(), root);
  document.body.dataset.drawn = view.found ? "all" : "little";
}

draw();
refresh();
