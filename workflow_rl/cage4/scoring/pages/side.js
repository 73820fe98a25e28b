// How one team's episode of CAGE-4 is shown, in the frame of cage/pages/replay.js.
"use strict";
const {zones, hosts, causes, services} = DATA;
const [TRUE, FALSE, DROPPED] = [1, 3, 5], IMPACT = 2, NOTHING = [0, 0, 0, 0, 0, []];
const OUTCOME = {[TRUE]: "succeeded", [FALSE]: "failed", [DROPPED]: "dropped: its session was gone"};

// --- Words --------------------------------------------------------------------------------------

const LABELS = hosts.map((name) => {
  const parts = /_(user|server)_host_(\d+)$/.exec(name);
  return parts ? `${parts[1][0]}${parts[2]}` : name.endsWith("_router") ? "R" : "root";
});
const hostText = (host) => `${zones[DATA.zone_of[host]]} ${LABELS[host]}`;
const isSleep = (deed, names) => names[deed[0]] === "Sleep";

function blueText([kind, target, source]) {
  const name = DATA.blue_actions[kind];
  if (name === "Sleep" || name === "Monitor") return name;
  if (name.endsWith("TrafficZone")) return `${name.replace("TrafficZone", "")} ${zones[source]} → ${zones[target]}`;
  return `${name} ${hostText(target)}`;
}

function redText(deed) {
  if (!deed) return "—";
  const name = DATA.red_actions[deed[0]];
  if (name === "Sleep" || name === "InvalidAction") return name;
  return `${name} ${name === "DiscoverRemoteSystems" ? zones[deed[1]] : hostText(deed[1])}`;
}

function stateText(deed) {
  const [, , , ticks, outcome] = deed;
  if (ticks) return `busy, ${ticks} ${ticks > 1 ? "steps" : "step"} to go`;
  return OUTCOME[outcome] ?? "takes effect";
}

function costText([cause, zone, cost, where], step) {
  // CybORG charges a failed Impact as well.
  const hasFailed = (host) => step.red.some((deed) => deed && !deed[3] && deed[1] === host
    && DATA.red_actions[deed[0]] === "Impact" && deed[4] === FALSE);
  const labels = where.map((host) => LABELS[host] + (cause === IMPACT && hasFailed(host) ? ", failed" : ""));
  return `${causes[cause]} in ${zones[zone]} (${labels.join("; ")}) ${number(-cost)}`;
}

const costsText = (step) => step.costs.map((cost) => costText(cost, step)).join("; ");

// What blue knows of a host; "" if nothing.
function knownText([analysed, cmd, escalate, shell, source, attacks]) {
  const {decoy, taken, ssh} = DATA.seen;
  const from = (host) => host === DATA.stranger ? "a host outside Blue's own zones" : hostText(host);
  const how = (seen) => seen & taken ? "taken" : seen & decoy ? "a decoy attacked" : seen & ssh ? "an SSH connection" : "scanned";
  const files = cmd && cmd === escalate ? [`cmd.sh and escalate.sh seen in step ${cmd}`]
    : [cmd && `cmd.sh seen in step ${cmd}`, escalate && `escalate.sh seen in step ${escalate}`];
  const hasFiles = cmd || escalate;
  return [
    ...files,
    analysed && !hasFiles && `no files in step ${analysed}`,
    hasFiles && analysed > Math.max(cmd, escalate) && `last analysed in step ${analysed}`,
    shell && `a shell since step ${shell}`,
    ...attacks.map(([host, step, seen]) => `${how(seen)} from ${from(host)} in step ${step}`),
    source && `attacks came from here, the last in step ${source}`,
  ].filter(Boolean).join("; ");
}

function effects(deeds, names, text) {
  return deeds.flatMap((deed, i) => deed && !deed[3] && !isSleep(deed, names) ? [`${i}: ${text(deed)}`] : []).join("; ");
}

function spoken(recording, now) {
  if (now === 0) return "Before the first step.";
  const step = recording.steps[now - 1];
  return `Step ${now}. Blue: ${effects(step.blue, DATA.blue_actions, blueText) || "nothing took effect"}. `
    + `Red: ${effects(step.red, DATA.red_actions, redText) || "nothing took effect"}. `
    + `Reward ${number(step.reward)}, total ${number(step.total)}.`;
}

// What the whole episode cost, by zone and cause.
function summarise(_, recording) {
  const costs = zones.map(() => causes.map(() => 0));
  for (const step of recording.steps) for (const [cause, zone, cost] of step.costs) costs[zone][cause] += cost;
  // Below the chart there is more room than in the lists.
  const box = add(byId("chart").parentElement, "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": `Costs of ${recording.agent}`});
  const table = add(box, "table", {class: "sums"});
  const whose = recordings.length > 1 ? `: ${recording.agent}` : "";
  add(add(table, "caption"), "h3", {}, `What the whole episode cost${whose}`);
  const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
  const short = ["Zone", "Failed work", "Blocked", "Impact", "Restore", "Sum"];
  short.forEach((name, i) => add(head, "th", {scope: "col", ...(i ? {class: "number"} : {})}, name));
  const sum = (values) => values.reduce((one, other) => one + other, 0);
  const row = (name, values) => {
    const line = add(body, "tr");
    add(line, "th", {scope: "row"}, name);
    for (const value of [...values, sum(values)]) add(line, "td", {class: "number"}, value ? number(-value) : "0");
  };
  zones.forEach((name, zone) => sum(costs[zone]) && row(name, costs[zone]));
  row("All", causes.map((_, cause) => sum(costs.map((own) => own[cause]))));
}

// --- One team's side ----------------------------------------------------------------------------

// The numbers of all hosts after each list of changes; -1: none so far.
function framesOf(changes) {
  const current = new Int32Array(hosts.length).fill(-1);
  return changes.map((changed) => {
    for (const [host, number] of changed) current[host] = number;
    return current.slice();
  });
}

function ownSide(recording, index, {one, field, place}) {
  const frames = framesOf([recording.beginning, ...recording.steps.map((step) => step.changes)]), exists = frames[0];
  const knownFrames = framesOf([[], ...recording.steps.map((step) => step.knows)]);
  const knownOf = (now, host) => recording.known[knownFrames[now][host]] ?? NOTHING;
  const stateOf = (now, host) => recording.states[frames[now][host]];

  const boxes = zones.map((title, zone) => {
    const box = add(one(".zones"), "section", {class: "zone", "data-zone": zone});
    const owners = [["blue", DATA.blue_of[zone]], ["red", DATA.red_of[zone]]].filter(([, agent]) => agent !== null);
    add(add(box, "h4", {}, title), "span", {}, owners.map((owner) => owner.join(" ")).join(", "));
    add(box, "ul", {class: "marks"});
    return box;
  });
  const marks = hosts.map((name, host) => exists[host] < 0 ? null
    : add(boxes[DATA.zone_of[host]].querySelector("ul"), "li", {class: "host", "data-host": host}));
  const acts = ["blue", "red"].flatMap((team) => recording.steps[0][team].map((_, agent) => {
    const row = add(one(".acts tbody"), "tr", {"data-agent": `${team} ${agent}`});
    const own = zones.filter((_, zone) => DATA[`${team}_of`][zone] === agent);
    add(row, "th", {scope: "row", title: own.join(", ")}, `${team} ${agent}`);
    return {team, agent, row, action: add(row, "td"), state: add(row, "td")};
  }));
  const costs = (step) => step && costsText(step) || "—";
  const cells = (step) => [
    effects(step.blue, DATA.blue_actions, blueText),
    effects(step.red, DATA.red_actions, (deed) => `${redText(deed)} ${OUTCOME[deed[4]] ?? ""}`),
    costsText(step),
  ];

  function describe(host, [user, root, decoys, stopped, failing, seen]) {
    const named = (bits) => services.filter((_, kind) => bits >> kind & 1).join(", ");
    const counted = [root && `${root} root`, user && `${user} user`].filter(Boolean).join(", ");
    const sessions = counted && `${counted}, of red ${DATA.red_of[DATA.zone_of[host]]}`;
    const health = [stopped && `stopped: ${named(stopped)}`, failing && `${failing}% of work fails`].filter(Boolean).join("; ");
    return [sessions || "none", health || "run", named(decoys) || "none", ["nothing", "a connection", "a process", "a connection and a process"][seen]];
  }

  function showHost(host, state, known, marked) {
    const [user, root, decoys, stopped, failing, seen, reds] = state, mark = marks[host];
    const [, cmd, escalate, shell, source, attacks] = known;
    mark.className = ["host", ...(marked[host] ?? [])].join(" ");
    mark.dataset.known = reds;
    mark.dataset.red = root ? "root" : user ? "user" : "none";
    const [sessions, health, shown, saw] = describe(host, state), knows = knownText(known) || "nothing";
    mark.title = `${hosts[host]}. True: red sessions: ${sessions}. Red knows: ${DATA.red_knows[reds]}. Blue knows: ${knows}. `
      + `Services: ${health}. Decoys: ${shown}. Blue saw in this step: ${saw}.`;
    mark.textContent = LABELS[host];
    if (decoys) add(mark, "i", {class: "decoy"});
    if (failing || stopped) add(mark, "i", {class: "failing", style: `width: ${Math.max(failing, 15)}%`});
    if (seen) add(mark, "i", {class: seen > 1 ? "seen process" : "seen"});
    const rights = escalate ? "root" : shell ? "user" : "none";
    if (rights !== "none") add(mark, "i", {class: `known ${rights}`});
    const wasTaken = attacks.some(([, , how]) => how & DATA.seen.taken);
    const isAsBefore = state.every((value, i) => i === 6 || value === recording.states[exists[host]][i] && (i > 1 || !value));
    if (isAsBefore && !(cmd || escalate || shell || source || wasTaken)) return;
    const row = add(one(".truth tbody"), "tr", {"data-red": mark.dataset.red});
    add(row, "th", {scope: "row"}, hostText(host));
    const differs = DATA.blue_of[DATA.zone_of[host]] !== null && rights !== mark.dataset.red;
    for (const text of [sessions, DATA.red_knows[reds], (differs ? "≠\u00a0" : "") + knows, health, shown, saw]) add(row, "td", {}, text);
  }

  // Classes of hosts that something happens to in a step.
  function markedIn(step) {
    const marked = {};
    const mark = (host, name) => (marked[host] ??= []).push(name);
    for (const deed of step?.blue ?? []) if (/^(Analyse|Remove|Restore|DeployDecoy)$/.test(DATA.blue_actions[deed[0]])) mark(deed[1], "treated");
    for (const deed of step?.red ?? []) if (deed && !/^(DiscoverRemoteSystems|Sleep|InvalidAction)$/.test(DATA.red_actions[deed[0]])) mark(deed[1], "attacked");
    for (const [cause, , , where] of step?.costs ?? []) if (cause < 2) for (const host of where) mark(host, "lost");
    return marked;
  }

  function wire(drawing, step) {
    const rim = boxes.map(place);
    const line = (from, to, attributes) => addLine(drawing, from, to, attributes, (_, dy) => Math.abs(dy) < (from.height + to.height) / 2);
    // Where the zones lie side by side.
    if (rim[0].x >= rim[2].x) return;
    for (const [from, to] of DATA.routes) line(rim[from], rim[to], {});
    for (const [to, from] of step?.blocked ?? []) line(rim[from], rim[to], {class: "blocked"});
  }

  function show(step, now) {
    const marked = markedIn(step);
    const phase = DATA.phases.findLast(([, before]) => before <= Math.max(0, now - 1));
    field("phase").textContent = phase[0];
    one(".truth tbody").replaceChildren();
    const held = {user: 0, root: 0};
    marks.forEach((mark, host) => {
      if (!mark) return;
      showHost(host, stateOf(now, host), knownOf(now, host), marked);
      if (mark.dataset.red !== "none") held[mark.dataset.red] += 1;
    });
    field("held").textContent = `${held.root} hosts as root, ${held.user} as a user`;
    boxes.forEach((box, zone) => box.classList.toggle("attacked",
      Boolean(step?.red.some((deed) => deed && DATA.red_actions[deed[0]] === "DiscoverRemoteSystems" && deed[1] === zone))));
    for (const {team, agent, row, action, state: cell} of acts) {
      const deed = step?.[team][agent];
      const text = team === "blue" ? blueText : redText;
      action.textContent = deed ? text(deed) : "—";
      const sleeps = deed && isSleep(deed, DATA[`${team}_actions`]);
      cell.textContent = deed ? (sleeps ? "free" : stateText(deed)) : step && team === "red" ? "has no session" : "—";
      cell.className = {[TRUE]: "good", [FALSE]: "bad"}[deed && !deed[3] && !sleeps ? deed[4] : 0] ?? "";
      row.classList.toggle("busy", Boolean(deed?.[3]) || !deed || sleeps);
    }
  }
  return {cells, costs, show, wire};
}
