// How one agent's episode of CAGE-2 is shown, in the frame of cage/pages/replay.js.
"use strict";
const {hosts, subnets, leads, red_actions, red_host} = DATA;
const SAME = {none: "clean", user: "user", privileged: "privileged"};
const SUCCESS = {TRUE: "succeeded", FALSE: "failed", UNKNOWN: ""};
const DOES = {DiscoverRemoteSystems: "sweeps", DiscoverNetworkServices: "scans",
  ExploitRemoteService: "exploits", PrivilegeEscalate: "escalates on", Impact: "impacts", Sleep: "sleeps"};

// --- What a step says ---------------------------------------------------------------------------

function redText(step) {
  const does = DOES[step.red_action] ?? step.red_action;
  return step.red_target ? `${does} ${step.red_target}` : does;
}

function outcome(field, success) {
  field.textContent = SUCCESS[success];
  field.className = {TRUE: "good", FALSE: "bad"}[success] ?? "";
}

function spoken(recording, now) {
  if (now === 0) return `Before the first step.`;
  const step = recording.steps[now - 1];
  const ended = (success) => SUCCESS[success] ? `, ${SUCCESS[success]}` : "";
  return `Step ${now}. Blue: ${step.blue_action}${ended(step.blue_success)}. `
    + `Red ${redText(step)}${ended(step.red_success)}. `
    + `Reward ${number(step.reward)}, return ${number(step.total)}.`;
}

// --- One agent's side ---------------------------------------------------------------------------

function ownSide(recording, index, {one, field, place}) {
  const cards = {}, titles = {}, rows = {};
  for (const [subnet, members] of Object.entries(subnets)) {
    const box = add(one(".subnets"), "section", {class: "subnet"});
    const title = add(box, "h4", {}, subnet);
    titles[subnet] = add(title, "span");
    const list = add(box, "ul", {class: "hosts"});
    for (const host of members) {
      const card = cards[host] = add(list, "li", {class: "host", "data-host": host});
      const name = add(card, "span", {class: "name"});
      add(name, "span", {}, host);
      add(name, "span", {class: "decoys"});
      add(card, "span", {class: "red"});
      add(card, "span", {class: "saw"});
    }
  }
  for (const host of hosts) {
    const row = rows[host] = add(one(".truth tbody"), "tr", {"data-host": host});
    add(row, "th", {scope: "row"}, host);
    for (const column of ["red", "known", "saw", "decoys"]) add(row, "td", {class: column});
  }
  const cells = (step) => [`${step.blue_action} ${SUCCESS[step.blue_success]}`, `${redText(step)} ${SUCCESS[step.red_success]}`];
  const costs = (step) => Object.entries(step?.costs ?? {}).map(([cause, cost]) => `${cause} ${number(-cost)}`).join(", ");

  function showHost(host, state, network, step) {
    const card = cards[host], [red, known, saw, decoys] = rows[host].querySelectorAll("td");
    card.dataset.red = state.red;
    card.dataset.known = state.known;
    card.classList.toggle("attacked", step?.red_target === host);
    card.classList.toggle("treated", step !== null && step.blue_action.endsWith(` ${host}`));
    const stopped = network.ot_stopped.includes(host) ? ", OT service stopped" : "";
    const session = state.red === "none" ? "no session" : state.red;
    const seen = state.belief + (state.activity === "nothing" ? "" : `, ${state.activity}`);
    const n = state.decoys.length;
    card.querySelector(".red").textContent = `Red: ${session}${stopped}`;
    card.querySelector(".saw").textContent = `Blue saw: ${seen}`;
    card.querySelector(".decoys").textContent = n ? `${n} decoy${n > 1 ? "s" : ""}` : "";
    const fill = (cell, text, isNone) => {
      cell.textContent = text;
      cell.classList.toggle("none", isNone);
    };
    fill(red, (state.red === "none" ? "nothing" : state.red) + (state.red_files ? ", files" : "") + stopped, state.red === "none");
    const knows = {nothing: "nothing", address: "its address", ports: `ports ${state.ports.join(", ")}`}[state.known];
    const isWrong = state.thought !== state.red;
    const thinks = state.thought !== "none" ? `; session: ${state.thought}` : isWrong ? "; no session" : "";
    fill(known, (isWrong ? "≠\u00a0" : "") + knows + thinks, state.known === "nothing" && !thinks);
    known.classList.toggle("differs", isWrong);
    const differs = SAME[state.red] !== state.belief;
    fill(saw, (differs ? "≠\u00a0" : "") + seen, seen === "clean" && !differs);
    saw.classList.toggle("differs", differs);
    fill(decoys, state.decoys.join(", ") || "none", n === 0);
  }

  function listOptions(list, options, isChosen) {
    list.replaceChildren();
    for (const [action, probability] of options) {
      const chosen = isChosen(action), item = add(list, "li", chosen ? {class: "chosen"} : {});
      if (probability !== null) add(item, "span", {class: "bar", style: `width: ${100 * probability}%`});
      add(item, "span", {}, action + (chosen ? " (chosen)" : ""));
      if (probability !== null) add(item, "span", {}, `${(100 * probability).toFixed(1)}%`);
    }
  }

  function showDecision(step) {
    const decision = step?.decision;
    listOptions(one(".options"), decision?.probabilities ?? [], (action) => action === step.blue_action);
    let text = step ? "A scripted agent: it follows a rule." : "Blue chooses its first action in step 1.";
    if (decision) {
      text = "No value: there is no critic in a policy file.";
      if (decision.value !== null) text = `Value before the step: ${number(decision.value)}, the discounted return that the critic expects.`;
      if (decision.is_opening) text = "A fixed opening: the policy is not asked.";
    }
    field("value").textContent = text;
  }

  // What Red chose in a step, on what it had observed before.
  function showRedChoice(step) {
    const choice = step?.red_choice, possible = choice?.possible.map((index) => red_actions[index]) ?? [];
    listOptions(one(".reds"), choice ? choice.decision?.probabilities ?? [[choice.action, null]] : [], (action) => action === choice.action);
    let text = choice ? "It draws from the policy's probabilities." : "Red chooses its first action in step 1.";
    if (choice && !choice.decision) text = "This red agent follows rules, which tell no probabilities.";
    if (choice && !possible.includes(choice.action)) text += " The action was not possible: it fails, and changes nothing.";
    field("red-choice").textContent = text;
    field("n-possible").textContent = `${possible.length} of ${red_actions.length} actions were possible`;
    const list = one(".possible"), kinds = {};
    for (const [kind, target] of possible.map((action) => action.split(" "))) (kinds[kind] ??= []).push(target ?? "");
    list.replaceChildren();
    for (const [kind, targets] of Object.entries(kinds)) {
      add(list, "dt", {}, DOES[kind]);
      add(list, "dd", {}, targets.join(", "));
    }
    field("shown-to-red").textContent = choice ? JSON.stringify(choice.observation, null, 1) ?? "" : "";
  }

  function wire(drawing, step) {
    const arrow = `arrow-${index}`;
    const marker = add(add(drawing, "defs"), "marker", {id: arrow, viewBox: "0 0 8 8", refX: 7,
      refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto"});
    add(marker, "path", {d: "M0 0 8 4 0 8z", fill: "var(--danger)"});
    const line = (from, to, attributes) => addLine(drawing, from, to, attributes, (dx) => Math.abs(dx) > (from.width + to.width) / 2);
    const [first, last] = [0, -1].map((i) => place(Object.values(titles).at(i).parentElement));
    // Where the subnets lie side by side.
    if (first.x < last.x - first.width) for (const [from, to] of leads) line(place(cards[from]), place(cards[to]), {});
    const target = step && (cards[step.red_target] ?? titles[step.red_target]?.parentElement);
    if (target && target !== cards[red_host]) {
      const failed = step.red_success === "FALSE" ? " failed" : "";
      line(place(cards[red_host]), place(target), {class: `attack${failed}`, "marker-end": `url(#${arrow})`});
    }
  }

  function show(step) {
    const network = step ? step.after : recording.beginning;
    field("blue").textContent = step ? step.blue_action : "—";
    field("red").textContent = step ? redText(step) : "—";
    field("red").title = step ? step.red_text : "";
    outcome(field("blue-success"), step ? step.blue_success : "UNKNOWN");
    outcome(field("red-success"), step ? step.red_success : "UNKNOWN");
    field("caught").textContent = !step ? "—" : step.caught.length ? `a process on ${step.caught.join(", ")}` : "no process";
    const known = (level) => network.hosts.filter((host) => level.includes(host.known)).length;
    field("knows").textContent = `${network.subnets.length} of ${Object.keys(subnets).length} subnets, ${known(["address", "ports"])} of ${hosts.length} `
      + `addresses, the ports of ${known(["ports"])}; ${network.red_knows_ot_service ? "has found" : "not"} the OT service`;
    for (const subnet of Object.keys(subnets)) {
      titles[subnet].textContent = network.subnets.includes(subnet) ? "known to Red" : "unknown to Red";
    }
    hosts.forEach((host, i) => showHost(host, network.hosts[i], network, step));
    showDecision(step);
    showRedChoice(step);
  }
  return {cells, costs, show, wire};
}

// Of all moments, by what they have in common: many small ones may cost more than the largest.
function summarise(lists, {moments}) {
  const steps = {}, costs = {};
  for (const {cause, first, last, cost} of moments) {
    const kind = cause.startsWith("Restore ") ? "Restore" : cause;
    steps[kind] = (steps[kind] ?? 0) + last - first + 1;
    costs[kind] = (costs[kind] ?? 0) + cost;
  }
  const sums = Object.keys(costs)
    .sort((one, other) => costs[other] - costs[one])
    .map((kind) => `${kind} ${number(-costs[kind])} (${steps[kind]} ${steps[kind] === 1 ? "step" : "steps"})`);
  if (sums.length) add(lists, "p", {class: "muted"}, `In all: ${sums.join("; ")}`);
}
