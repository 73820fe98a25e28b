// A replay: the chart, what cost most, time, and of each agent's episode what all challenges show.
// A challenge's side.js brings the rest: `spoken` and `summarise` say an episode in words, and
// `ownSide` shows the network.
"use strict";
const DATA = JSON.parse(document.getElementById("episodes").textContent);
const recordings = DATA.recordings;
const N_STEPS = recordings[0].steps.length;
const N_MOMENTS = DATA.moments_shown;
const CURVES = 50 * (2 + recordings.length);
const byId = (id) => document.getElementById(id);
const number = (value) => value.toFixed(DATA.digits ?? 1).replace("-", "−");

function add(parent, name, attributes = {}, text = "") {
  const inSvg = name === "svg" || parent.namespaceURI.endsWith("svg");
  const element = inSvg ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== "") element.textContent = text;
  return parent.appendChild(element);
}

// --- The chart ----------------------------------------------------------------------------------

const chart = {};

function tickStep(range) {
  const rough = range / 5, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

function drawChart() {
  const svg = byId("chart"), width = svg.clientWidth || 600, left = 48, right = 14;
  chart.x = (now) => left + now / N_STEPS * (width - left - right);
  const pins = placePins();
  // The pins, the curves, the axis.
  const top = 12 + 22 * Math.max(0, ...pins.map((pin) => pin.row + 1)), height = top + CURVES + 34;
  const lowest = Math.min(-1, ...recordings.map((one) => one.steps.at(-1).total));
  const step = tickStep(-lowest), floor = -step * Math.ceil(-lowest / step);
  const y = (total) => top + total / floor * CURVES;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren();
  for (let total = 0; total >= floor - step / 1000; total -= step) {
    add(svg, "line", {class: "grid", x1: left, x2: width - right, y1: y(total), y2: y(total)});
    const digits = step < 1 ? 1 : 0;
    add(svg, "text", {x: left - 6, y: y(total) + 4, "text-anchor": "end"}, total.toFixed(digits).replace("-", "−"));
  }
  const every = tickStep(N_STEPS);
  for (let now = 0; now <= N_STEPS; now += Math.max(1, every)) {
    add(svg, "text", {x: chart.x(now), y: top + CURVES + 18, "text-anchor": "middle"}, now);
  }
  add(svg, "text", {x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle"}, "step");
  for (const [name, first] of DATA.phases ?? []) {
    const x = chart.x(first);
    if (first) add(svg, "line", {class: "grid", x1: x, x2: x, y1: top, y2: top + CURVES});
    add(svg, "text", {x: x + 4, y: top + CURVES - 6}, name);
  }
  recordings.forEach((recording, i) => {
    const points = [0, ...recording.steps.map((one) => one.total)].map((total, now) => `${chart.x(now)},${y(total)}`);
    add(svg, "polyline", {class: `curve agent-${i}`, points: points.join(" ")});
  });
  for (const pin of pins) {
    const x = chart.x(pin.moment.first), middle = 12 + 22 * pin.row;
    const total = recordings[pin.agent].steps[pin.moment.first - 1].total;
    add(svg, "line", {class: `stem agent-${pin.agent}`, x1: x, x2: x, y1: middle + 9, y2: y(total)});
    const shape = {x: x - 9, y: middle - 9, width: 18, height: 18, rx: pin.agent ? 3 : 9};
    add(svg, "rect", {class: `pin agent-${pin.agent}`, "data-step": pin.moment.first, ...shape});
    add(svg, "text", {class: "pin-number", x, y: middle + 4, "data-step": pin.moment.first}, pin.number);
  }
  chart.cursor = add(svg, "line", {class: "cursor", y1: top, y2: top + CURVES});
  moveCursor();
}

// In rows, so that none covers another.
function placePins() {
  const ends = [];
  const pins = recordings.flatMap((recording, agent) => recording.moments.slice(0, N_MOMENTS)
    .map((moment, i) => ({moment, agent, number: i + 1})));
  pins.sort((one, other) => one.moment.first - other.moment.first);
  for (const pin of pins) {
    const at = chart.x(pin.moment.first);
    pin.row = ends.findIndex((end) => end + 22 <= at);
    if (pin.row < 0) pin.row = ends.length;
    ends[pin.row] = at;
  }
  return pins;
}

function moveCursor() {
  chart.cursor.setAttribute("x1", chart.x(state.now));
  chart.cursor.setAttribute("x2", chart.x(state.now));
}

function stepAt(event) {
  if (event.target.dataset.step) return Number(event.target.dataset.step);
  const x = event.clientX - byId("chart").getBoundingClientRect().x;
  return Math.round((x - chart.x(0)) / (chart.x(N_STEPS) - chart.x(0)) * N_STEPS);
}

function listMoments(recording, index) {
  const lists = byId("lists");
  add(lists, "h2", {}, recordings.length > 1 ? `What cost ${recording.agent} most` : "What cost most");
  if (!recording.moments.length) add(lists, "p", {}, "Nothing was lost.");
  const list = add(lists, "ol", {class: "moments"});
  recording.moments.slice(0, N_MOMENTS).forEach((moment, i) => {
    const button = add(add(list, "li"), "button", {type: "button", "data-step": moment.first});
    add(button, "strong", {}, i + 1);
    const what = add(button, "span", {}, `${moment.cause}, `);
    const when = moment.first === moment.last ? `step ${moment.first}` : `steps ${moment.first}–${moment.last}`;
    add(what, "span", {class: "muted"}, when);
    add(button, "span", {class: "number"}, number(-moment.cost));
    button.addEventListener("click", () => seek(moment.first));
  });
  summarise(lists, recording);
  listMarks(lists, recording);
}

// What is measured of a step beside its reward, by the names of the costs.
const MARKED = {
  healthy_recoveries: "recovery of a healthy host",
  counter_actions: "recovery of a host that Red holds",
  impacts: "Impact that succeeds",
  degrades: "DegradeServices that succeeds",
  blue_failures: "users' work that fails because of Blue",
  red_failures: "users' work that fails because of Red",
};

// Of each step, what is measured and how many times.
function marksOf(measured) {
  const marks = measured.map((costs) => Object.entries(MARKED).filter(([name]) => costs[name])
    .map(([name, what]) => [what, costs[name]]));
  const begun = measured.findIndex((costs) => costs.red_present);
  const first = measured.findIndex((costs, i) => begun >= 0 && i >= begun && costs.counter_actions);
  if (first >= 0) marks[first].push(["first counter-action", 1]);
  return marks;
}

// A button for each kind of mark goes to its next step.
function listMarks(lists, recording) {
  const marks = marksOf(recording.steps.map((step) => step.measured));
  const steps = {};  // The numbers of the steps with each kind of mark.
  marks.forEach((ofStep, i) => ofStep.forEach(([what]) => (steps[what] ??= []).push(i + 1)));
  if (!marks.flat().length) return;
  add(lists, "h2", {}, "What is measured");
  const list = add(lists, "ul", {class: "measured"});
  for (const [what, own] of Object.entries(steps)) {
    const button = add(add(list, "li"), "button", {type: "button"});
    add(button, "strong");
    add(button, "span", {}, what);
    add(button, "span", {class: "number"}, `${own.length} ${own.length === 1 ? "step" : "steps"}`);
    button.addEventListener("click", () => go(own.find((step) => step > state.now) ?? own[0]));
  }
}

// --- Time ---------------------------------------------------------------------------------------

const state = {now: 0, timer: null};
let sides = [];

function seek(step) {
  state.now = Math.max(0, Math.min(N_STEPS, step));
  byId("slider").value = state.now;
  byId("slider").setAttribute("aria-valuetext", `step ${state.now} of ${N_STEPS}`);
  byId("now").textContent = `Step ${state.now} of ${N_STEPS}`;
  sides.forEach((side) => side.show(state.now));
  moveCursor();
  if (state.now === N_STEPS) pause();
  // While it plays, a screen reader could not keep up.
  if (!state.timer) byId("spoken").textContent = recordings.map((one) => recordings.length > 1 ? `${one.agent}: ${spoken(one, state.now)}` : spoken(one, state.now)).join(" ");
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
  byId("play").textContent = "Play";
}

function play() {
  if (state.now === N_STEPS) seek(0);
  clearInterval(state.timer);
  state.timer = setInterval(() => seek(state.now + 1), 1000 / Number(byId("speed").value));
  byId("play").textContent = "Pause";
}

function toggle() {
  if (!state.timer) return play();
  pause();
  seek(state.now);
}

function go(step) {
  pause();
  seek(step);
}

const KEYS = {ArrowLeft: () => go(state.now - 1), ArrowRight: () => go(state.now + 1),
  Home: () => go(0), End: () => go(N_STEPS), " ": toggle};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in KEYS)) return;
  // Where the key means something of its own.
  if (event.target.closest("select, summary, .log")) return;
  if (event.target.closest("button") && event.key === " ") return;
  event.preventDefault();
  KEYS[event.key]();
});
byId("first").addEventListener("click", KEYS.Home);
byId("back").addEventListener("click", KEYS.ArrowLeft);
byId("play").addEventListener("click", toggle);
byId("forward").addEventListener("click", KEYS.ArrowRight);
byId("last").addEventListener("click", KEYS.End);
byId("slider").addEventListener("input", () => go(Number(byId("slider").value)));
byId("speed").addEventListener("change", () => state.timer && play());
byId("chart").addEventListener("click", (event) => go(stepAt(event)));

// --- One agent's side ---------------------------------------------------------------------------

// The side's parts: `one` finds an element, `field` one by its data-field, and `place` says where
// an element lies in the drawing of the wires.
function addSide(recording) {
  const side = byId("side").content.cloneNode(true).firstElementChild;
  byId("sides").append(side);
  const one = (selector) => side.querySelector(selector);
  one(".agent").textContent = recording.agent;
  one(".agent").hidden = recordings.length === 1;
  one(".log").setAttribute("aria-label", `All steps of ${recording.agent}`);
  const place = (element) => {
    const frame = one(".wires").getBoundingClientRect(), box = element.getBoundingClientRect();
    return {x: box.x + box.width / 2 - frame.x, y: box.y + box.height / 2 - frame.y,
      width: box.width, height: box.height};
  };
  return {one, place, field: (name) => one(`[data-field="${name}"]`)};
}

function addLog(body, recording, cells) {
  return recording.steps.map((step, i) => {
    const row = add(body, "tr");
    const go = add(add(row, "th", {scope: "row"}), "button", {type: "button"}, i + 1);
    go.addEventListener("click", () => seek(i + 1));
    for (const text of cells(step)) add(row, "td", {}, text);
    add(row, "td", {class: "number"}, number(step.reward));
    add(row, "td", {class: "number"}, number(step.total));
    return row;
  });
}

// From the edge of one place to the edge of another: what lies there would hide the rest.
function addLine(drawing, from, to, attributes, isAside) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const [x, y] = isAside(dx, dy) ? [Math.sign(dx), 0] : [0, Math.sign(dy)];
  add(drawing, "line", {...attributes, x1: from.x + x * from.width / 2, y1: from.y + y * from.height / 2,
    x2: to.x - x * to.width / 2, y2: to.y - y * to.height / 2});
}

// ownSide returns `cells` (a step's in the log, before its reward), `costs` (a step's, in words),
// `show` (a step, or null before the first one) and `wire`, which draws the wires.
function makeSide(recording, index) {
  const parts = addSide(recording), {one, field} = parts;
  const own = ownSide(recording, index, parts);
  const log = addLog(one(".log tbody"), recording, own.cells);
  const marks = marksOf(recording.steps.map((step) => step.measured));
  function wire() {
    one(".wires").replaceChildren();
    own.wire(one(".wires"), recording.steps[state.now - 1] ?? null);
  }
  function show(now) {
    const step = recording.steps[now - 1] ?? null;
    field("reward").textContent = step ? number(step.reward) : "—";
    field("costs").textContent = own.costs(step);
    field("return").textContent = number(step ? step.total : 0);
    const ofStep = step ? marks[now - 1] : [];
    field("measured").textContent = ofStep.map(([what, times]) => times > 1 ? `${what} (${times})` : what).join("; ") || "—";
    own.show(step, now);
    log.forEach((row, i) => row.toggleAttribute("aria-current", i + 1 === now));
    if (step) log[now - 1].setAttribute("aria-current", "step");
    wire();
  }
  return {show, wire};
}

function start() {
  byId("slider").max = N_STEPS;
  if (recordings.length > 1) {
    byId("sides").classList.add("two");
    byId("keys").hidden = false;
    recordings.forEach((recording, i) => {
      const key = add(byId("keys"), "span", {class: "key-of"});
      add(key, "span", {class: `key agent-${i}`});
      add(key, "span", {}, `${recording.agent} (${number(recording.steps.at(-1).total)}) `);
    });
  }
  recordings.forEach(listMoments);
}

function fromAddress() {
  const wanted = /^#step=(\d+)$/.exec(location.hash);
  go(wanted ? Number(wanted[1]) : 0);
}

document.addEventListener("DOMContentLoaded", () => {
  start();
  sides = recordings.map(makeSide);
  drawChart();
  fromAddress();
  addEventListener("hashchange", fromAddress);
  new ResizeObserver(() => {
    drawChart();
    sides.forEach((side) => side.wire());
  }).observe(document.body);
});
