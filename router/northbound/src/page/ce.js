"use strict";
// The page of a control element.
// The chosen one stands in the address, so that a link leads to it.
function named() {
  try { return decodeURIComponent(location.hash.slice(1)) || null; } catch { return null; }
}
const ROWS_MAX = 100, LINKS_MAX = 400;
let chosen = named(), samples = new Map(), lastGood = 0, blocks = [], drawnKey = "", drawnAt = 0;

const component = path => ask("/v1/component?path=" + encodeURIComponent(path));

const FE = [["Name", "word"], ["ID"], ["State", "word"], ["Ports"], ["LFBs"], ["Stored settings"], ["Why", "word"]];
const CHANNEL = [["Name", "word"], ["Associated for"], ["Address", "word"], ["Control out"], ["Control in"], ["Redirect out"],
  ["Redirect in"], ["Waiting"], ["Redirects dropped"], ["Control's share", "word"]];
const PORT = [["Port", "word"], ["Interface", "word"], ["State", "word"], ["Discipline", "word"], ["Paced to"], ["In"], ["Out"]];
heads(at("fe-heads"), FE); heads(at("channel-heads"), CHANNEL); heads(at("port-heads"), PORT);

// ---- rates: differences of counters between two answers
function rate(key, values) {
  const now = performance.now(), before = samples.get(key);
  samples.set(key, { now, values });
  const seconds = before ? (now - before.now) / 1000 : 0;
  return name => before && seconds > 0.2 && values[name] >= before.values[name]
    ? (values[name] - before.values[name]) / seconds : null;
}
const flow = (messages, bytes) => messages === null || bytes === null ? "\u2013"
  : [scaled(messages, "/s"), el("small", {}, scaled(8 * bytes, "bit/s"))];

function showFes(fes) {
  const synced = fes.filter(fe => fe.state === "in sync").length;
  at("headline").textContent = fes.length === 0 ? "No forwarding element is configured"
    : `${synced} of ${fes.length} forwarding element${fes.length === 1 ? "" : "s"} in sync`;
  at("search").hidden = fes.length <= 12;
  const word = at("filter").value.trim().toLowerCase();
  const found = fes.filter(fe => !word || `${fe.fe} ${fe.state}`.toLowerCase().includes(word));
  const rows = found.slice(0, ROWS_MAX).map(fe => {
    const kind = { "in sync": "good", restoring: "", degraded: "bad", away: "bad", refused: "bad" }[fe.state] || "";
    return { key: fe.fe, chosen: fe.fe === chosen, cells: [el("button", { class: "name", "data-fe": fe.fe, "aria-pressed": String(fe.fe === chosen) }, fe.fe), fe.id,
      el("span", { class: `state ${kind}` }, fe.state), fe.ports, fe.blocks, fe.desired, fe.why || ""] };
  });
  fill(at("fes"), FE, rows);
  at("fes-empty").hidden = found.length <= ROWS_MAX && found.length > 0;
  at("fes-empty").textContent = found.length > ROWS_MAX ? `${found.length - ROWS_MAX} more: type a part of the name above.`
    : fes.length ? "No name or state matches." : "Add [fe.NAME] to the configuration file of the control element.";
  return new Set(rows.map(row => row.key));
}

function showChannels(channels, associations, shown) {
  const of = new Map(associations.map(row => [row.fe, row]));
  const rows = channels.filter(row => shown.has(row.fe)).map(row => {
    const association = of.get(row.fe), values = {};
    for (const name of ["control_sent", "control_received", "redirect_sent", "redirect_received"])
      for (const member of ["messages", "bytes"]) values[name + member] = row[name][member];
    const per = rate(`${row.fe}/${association ? association.peer : ""}`, values);
    const pair = name => flow(per(name + "messages"), per(name + "bytes"));
    const share = row.gauges.control_share;
    const bar = share === undefined ? row.discipline
      : [el("span", { class: "share" }, el("i", { style: `width:${Math.min(100, Number(share) / 10)}%` })), `${(share / 10).toFixed(0)}\u00a0%`];
    const waiting = row.control_waiting.messages + row.redirect_waiting.messages;
    return { key: row.fe, chosen: row.fe === chosen, cells: [row.fe, association ? elapsed(association.up_s) : "\u2013",
      association ? association.peer : "\u2013", pair("control_sent"), pair("control_received"), pair("redirect_sent"),
      pair("redirect_received"), waiting, row.redirect_dropped.messages, bar] };
  });
  fill(at("channels"), CHANNEL, rows);
  at("channels-empty").hidden = rows.length > 0;
}

function showPorts(ports) {
  fill(at("ports"), PORT, ports.map(port => {
    const per = rate(`${chosen} port ${port.port}`, { in: port.received.bytes, out: port.sent.bytes });
    const bits = name => per(name) === null ? "\u2013" : scaled(8 * per(name), "bit/s");
    const kind = port.state === "up" ? "good" : "bad";
    return { key: port.port, cells: [port.port, port.interface, el("span", { class: `state ${kind}` }, port.state), port.discipline,
      port.rate_bps ? scaled(port.rate_bps, "bit/s") : "not paced", bits("in"), bits("out")] };
  }));
}

// ---- the picture of FEObject.LFBTopology: layers by the distance from where packets come in
function layers(links) {
  const all = new Set(links.flat()), inward = new Set(links.map(([, to]) => to));
  let roots = [...all].filter(block => !inward.has(block));
  if (!roots.length) roots = [...all].filter(block => isPort(block));
  if (!roots.length) roots = [...all].slice(0, 1);
  const depth = new Map(roots.map(block => [block, 0])), queue = [...roots];
  for (let block; (block = queue.shift()) !== undefined;)
    for (const [from, to] of links)
      if (from === block && !depth.has(to)) { depth.set(to, depth.get(block) + 1); queue.push(to); }
  const nodes = new Map(), drawn = [];
  const node = (id, block, depth) => { if (!nodes.has(id)) nodes.set(id, { block, depth }); return id; };
  for (const [from, to] of links) {
    if (!depth.has(from)) continue;
    const here = depth.get(from), goesOn = depth.get(to) > here;
    // A way back to an earlier block ends in a copy of it: packets leave there.
    drawn.push([node(from, from, here), goesOn ? node(to, to, depth.get(to)) : node(`${to} out`, to, here + 1)]);
  }
  const last = Math.max(0, ...[...nodes.values()].map(({ depth }) => depth));
  for (const [id, place] of nodes) if (id.endsWith(" out")) place.depth = last;
  return { nodes, drawn, last };
}
const known = block => blocks.find(row => `${row.class_id}.${row.instance}` === block);
const isPort = block => { const row = known(block); return Boolean(row && row.class === "ports"); };

function draw(links) {
  const { nodes, drawn, last } = layers(links);
  const isNarrow = at("drawing").clientWidth < 640, W = 136, H = 46, GAP = 16;
  const step = isNarrow ? H + 44 : Math.max(W + 48, Math.min(W + 130, (at("drawing").clientWidth - W - 4) / Math.max(1, last)));
  const columns = [];
  for (const [id, place] of nodes) (columns[place.depth] ||= []).push(id);
  const across = (isNarrow ? W : H) + GAP, longest = Math.max(...columns.filter(Boolean).map(column => column.length));
  const where = new Map();
  columns.forEach((column, depth) => column.forEach((id, n) => {
    const along = depth * step + 2, aside = (n + (longest - column.length) / 2) * across + 2;
    where.set(id, isNarrow ? [aside, along] : [along, aside]);
  }));
  const long = last * step + 4, wide = longest * across - GAP + 4;
  const [width, height] = isNarrow ? [wide, long + H] : [long + W, wide];
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `LFBs of ${chosen}` });
  for (const [from, to] of drawn) {
    const [ax, ay] = where.get(from), [bx, by] = where.get(to);
    const [x, y, u, v] = isNarrow ? [ax + W / 2, ay + H, bx + W / 2, by - 6] : [ax + W, ay + H / 2, bx - 6, by + H / 2];
    const curve = isNarrow ? `C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}` : `C${(x + u) / 2} ${y} ${(x + u) / 2} ${v} ${u} ${v}`;
    const tip = isNarrow ? `M${u - 4} ${v}L${u} ${v + 6}L${u + 4} ${v}Z` : `M${u} ${v - 4}L${u + 6} ${v}L${u} ${v + 4}Z`;
    picture.append(svg("path", { class: "way", d: `M${x} ${y}${curve}` }), svg("path", { class: "tip", d: tip }));
  }
  for (const [id, { block, depth }] of nodes) {
    const [x, y] = where.get(id), row = known(block), [classId, instance] = block.split(".");
    const title = isPort(block) ? "port" : row ? row.class : classId;
    const about = row && row.port ? row.port : isPort(block) ? `number ${instance}` : `instance ${instance}`;
    const side = isPort(block) ? (depth === 0 ? ", in" : id.endsWith(" out") ? ", out" : "") : "";
    const cut = text => text.length > 17 ? text.slice(0, 16) + "\u2026" : text;
    const line = (words, dy, kind) => { const made = svg("text", { x: x + 10, y: y + dy, ...(kind ? { class: kind } : {}) }); made.textContent = cut(words); return made; };
    const tip = svg("title"); tip.textContent = row && row.about ? `${title} ${about}: ${row.about}` : `${title} ${about}`;
    const group = svg("g", { tabindex: 0, role: "button", "aria-label": `${title} ${about}${side}`, ...(isPort(block) ? { class: "port" } : {}) },
      svg("rect", { x, y, width: W, height: H, rx: 7 }), line(title + side, 20), line(about, 36, "where"), tip);
    const open = () => read(row ? row.path : `${chosen}:${block}`);
    group.addEventListener("click", open);
    group.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } });
    picture.append(group);
  }
  at("drawing").replaceChildren(picture);
}

async function showTopology() {
  const fe = chosen;
  const [all, topology] = await Promise.all([ask("/v1/lfbs"), component(`${fe}:FEObject.1.LFBTopology`)]);
  if (fe !== chosen) return;
  blocks = all.filter(row => row.fe === fe);
  const id = lfb => `${lfb.LFBClassID}.${lfb.LFBInstanceID}`;
  const links = [...new Map((topology || []).map(link => [id(link.FromLFBID), id(link.ToLFBID)]).map(pair => [pair.join(" "), pair])).values()];
  at("paths").replaceChildren(...blocks.slice(0, ROWS_MAX).map(row => el("option", { value: row.path })));
  const key = JSON.stringify([fe, links, blocks, at("drawing").clientWidth]);
  if (key === drawnKey) return;
  drawnKey = key;
  at("topology-about").textContent = !links.length ? "This forwarding element reports no links between its LFBs."
    : links.length > LINKS_MAX ? `There are ${links.length} links between LFBs, too many to draw.`
    : `Packets follow the arrows; each port appears twice, for input and for output. Choose an LFB to read its components below.`;
  if (links.length && links.length <= LINKS_MAX) draw(links); else at("drawing").replaceChildren();
}

// ---- one component
function shown(value, path) {
  if (Array.isArray(value))
    return value.length ? el("ol", { start: 0 }, ...value.slice(0, ROWS_MAX).map(row => el("li", {}, shown(row, null))),
      value.length > ROWS_MAX ? el("li", {}, `${value.length - ROWS_MAX} more`) : null) : "no rows";
  if (value !== null && typeof value === "object") {
    const parts = Object.entries(value).flatMap(([name, part]) => {
      const below = path && /^[A-Za-z0-9_-]+$/.test(name) ? `${path}.${name}` : null;
      const head = below ? el("button", { class: "name", type: "button", "data-path": below }, name) : name;
      return [el("dt", {}, head), el("dd", {}, shown(part, null))];
    });
    return parts.length ? el("dl", {}, ...parts) : "nothing";
  }
  return value === null ? "no value" : String(value);
}
function say(text, kind) { at("said").textContent = text; at("said").className = kind || ""; }
async function read(path, isQuiet) {
  at("path").value = path;
  if (!isQuiet) say("");
  try {
    const value = await component(path);
    at("value").replaceChildren(shown(value, path));
    at("write").hidden = value !== null && typeof value === "object";
    if (!isQuiet) at("new").value = "";
    if (!isQuiet) at("value").scrollIntoView({ block: "nearest" });
  } catch (error) {
    at("value").replaceChildren();
    at("write").hidden = true;
    say(error.message, "bad");
  }
}
at("read").addEventListener("submit", event => { event.preventDefault(); read(at("path").value.trim()); });
at("value").addEventListener("click", event => { const path = event.target.dataset.path; if (path) read(path); });
at("write").addEventListener("submit", async event => {
  event.preventDefault();
  const path = at("path").value.trim(), headers = { "content-type": "application/json" };
  try {
    const body = JSON.stringify([{ path, value: at("new").value }]);
    const report = await ask("/v1/component", { method: "PATCH", headers, body });
    say(report.messages.join("\n") || "The component already had this value.", "good");
    await read(path, true);
  } catch (error) { say(error.message, "bad"); }
});

// ---- the clock of the page
at("fes").addEventListener("click", event => {
  const fe = event.target.dataset.fe;
  if (!fe) return;
  location.hash = fe === chosen ? "" : encodeURIComponent(fe);
});
addEventListener("hashchange", () => {
  chosen = named();
  drawnKey = ""; drawnAt = 0;
  at("one").hidden = true;
  refresh();
});
at("filter").addEventListener("input", () => refresh());
async function showOne(fe) {
  at("one-name").textContent = fe.fe;
  if (fe.state === "away") {
    at("one-about").textContent = `Disconnected: ${fe.why || "it has never associated"}. Settings made now are sent when it associates.`;
    for (const part of ["ports-table", "topology-name", "topology-about", "drawing"]) at(part).hidden = true;
    at("one").hidden = false;
    return;
  }
  for (const part of ["ports-table", "topology-name", "topology-about", "drawing"]) at(part).hidden = false;
  at("one").hidden = false;
  try {
    showPorts(await ask(`/v1/fe/${encodeURIComponent(fe.fe)}/v1/ports`));
    at("one-about").textContent = "Ports, as the forwarding element reports them.";
  } catch (error) { at("ports-table").hidden = true; at("one-about").textContent = `Cannot read its ports: ${error.message}`; }
  if (performance.now() - drawnAt < 5000 && drawnKey) return;
  drawnAt = performance.now();
  try { await showTopology(); } catch (error) { drawnKey = ""; at("drawing").replaceChildren(); at("topology-about").textContent = error.message; }
}
let isBusy = false, isWanted = false;
async function refresh() {
  if (isBusy) { isWanted = true; return; }
  isBusy = true;
  try {
    const [fes, associations, channels, [store]] = await Promise.all(["fes", "associations", "channels", "store"].map(name => ask(`/v1/${name}`)));
    lastGood = Date.now();
    at("store").hidden = store.writable;
    at("store").textContent = `Changes are refused: cannot write the store ${store.file} (${store.why}).`;
    const rows = showFes(fes);
    showChannels(channels, associations, rows);
    const one = fes.find(fe => fe.fe === chosen);
    if (one) await showOne(one); else at("one").hidden = true;
  } catch (error) { console.warn(error); }
  isBusy = false;
  const silent = lastGood ? Math.round((Date.now() - lastGood) / 1000) : null;
  at("pulse").textContent = isAsking() ? "waiting for the token" : silent === null ? "the control element does not answer" : silent < 5 ? "live, every second"
    : `no answer for ${silent} s: data is stale`;
  at("pulse").classList.toggle("lost", !isAsking() && (silent === null || silent >= 5));
  if (isWanted) { isWanted = false; refresh(); }
}
setInterval(() => { if (!document.hidden) refresh(); }, 1000);
document.addEventListener("visibilitychange", () => { samples.clear(); if (!document.hidden) refresh(); });
refresh();
