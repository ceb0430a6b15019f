"use strict";
// The page of a router. One streaming answer, /v1/live, has the tables of each second; the past comes from
// /v1/history and /v1/drop_history when the page opens.

const PORT = [["Port", "word"], ["State", "word"], ["Rate"], ["In"], ["Out"], ["Link busy", "word"], ["Light traffic delay", "word"],
  ["Backlog", "word"], ["Packets dropped"]];
const TALKER = [["Who", "word"], ["Now"], ["1 minute"], ["5 minutes"], ["Share of port", "word"]];
const WAITING = [["Who", "word"], ["Flows"], ["Waiting"], ["Share of queue", "word"], ["Share of link", "word"], ["Longest wait"], ["Why", "word"]];
const DROP = [["Reason", "word"], ["Meaning", "word"], ["Latest second"], ["Since the start"], ["Last minutes", "word"]];
heads(at("port-heads"), PORT); heads(at("talker-heads"), TALKER); heads(at("waiting-heads"), WAITING); heads(at("drop-heads"), DROP);

// The spans that charts can show: milliseconds, and the step of their records.
const SPANS = { "minute": [60e3, "second"], "10 minutes": [600e3, "second"], "6 hours": [21600e3, "minute"] };
const STEPS = ["second", "minute"];
let span = "minute", chosen = null, latest = null, lastGood = 0;
let history = { second: [], minute: [] }, dropped = new Map(), loaded = null;
const KINDS = { "Senders": "source", "Receivers": "destination", "Flows": "flow" };
const TITLES = { "Senders": "Top senders", "Receivers": "Top receivers", "Flows": "Top flows" };
let kind = "Senders";
// Mean rates of each port over five minutes, in which older seconds count less, as for who sends most; and words for gauges,
// by their discipline.
let means = new Map(), meansAt = 0, gaugeWords = {};

// ---- words for numbers
const millis = s => s === null ? "\u2013" : s < 1e-6 ? "0 ms" : s < 1 ? `${Number((s * 1e3).toPrecision(s < 0.1 ? 2 : 3))} ms` : `${Number(s.toPrecision(3))} s`;
const bits = bps => scaled(bps, "bit/s");
const percent = x => `${x > 0 && x < 0.0995 ? (100 * x).toFixed(1) : (100 * x).toFixed(0)} %`;
const count = n => n.toLocaleString("en");
function bar(share, kind) {
  const part = el("i", { style: `width:${Math.min(100, 100 * share).toFixed(1)}%` });
  return el("span", { class: "whole" }, el("span", { class: `meter ${kind || ""}`, "aria-hidden": "true" }, part), percent(share));
}
const state = (kind, word) => el("span", { class: `state ${kind}` }, word);

// ---- tables
const waits = (row, whose) => row && row[`${whose}_delay_p50_s`] !== null
  ? [millis(row[`${whose}_delay_p50_s`]), el("small", {}, `p99 ${millis(row[`${whose}_delay_p99_s`])}`)] : "\u2013";
const rates = (port, now, name) => !now ? "\u2013"
  : [bits(now[name]), means.has(port) ? el("small", {}, `${bits(means.get(port)[name])} over 5 min`) : ""];
const record = port => latest.history.find(row => row.port === port) || null;
// On a busy machine a full link is idle for parts of a second: its drops show that it is full.
const isFull = row => row.utilisation_ratio !== null && row.utilisation_ratio >= (row.dropped_packets > 0 ? 0.9 : 0.95);
function showPorts() {
  const rows = latest.ports.map(port => {
    const now = record(port.port), full = now && isFull(now);
    const queue = latest.queues.find(row => row.port === port.port);
    const pressed = String(port.port === chosen);
    return { key: port.port, chosen: port.port === chosen, cells: [
      [el("button", { class: "name", "data-port": port.port, "aria-pressed": pressed }, port.port), el("small", {}, port.interface)],
      state(port.state === "up" ? "good" : "bad", port.state),
      port.rate_bps === null ? "not paced" : bits(port.rate_bps),
      rates(port.port, now, "received_bps"), rates(port.port, now, "sent_bps"),
      now && now.utilisation_ratio !== null ? bar(now.utilisation_ratio, full ? "full" : "") : "not paced",
      waits(now, "light"),
      [queue ? `${count(queue.backlog.packets)} packet${queue.backlog.packets === 1 ? "" : "s"}` : "\u2013",
        now && now.heavy_delay_p50_s !== null ? el("small", {}, `delay ${millis(now.heavy_delay_p50_s)}`) : ""],
      now ? [`${count(Math.round(now.dropped_packets / now.span_s))}/s`, queue && queue.dropped.packets ? el("small", {}, `${count(queue.dropped.packets)} in total`) : ""] : "\u2013"] };
  });
  fill(at("ports"), PORT, rows);
}

// The flooders of a port: the owners of packets that are held back there, in order of their number of packets. Where the
// discipline does not know, it is only said who has most.
function flooder({ port, heavy_delay_p50_s: wait }) {
  const [first, ...others] = latest.waiting.filter(row => row.port === port && row.waited_s >= 1e-3);
  if (!first) return "";
  if (wait === null) return `. ${first.who} has the most packets in the queue`;
  return others.length === 0 ? `. ${first.who} sends more than its share: its queue delay is ${millis(wait)}`
    : `. ${first.who} and ${others.length === 1 ? "one other source" : `${count(others.length)} other sources`} send more than their share: their queue delay is ${millis(wait)}`;
}
function showHeadline() {
  const most = value => [...latest.history].filter(row => value(row) !== null).sort((a, b) => value(b) - value(a))[0];
  const fullest = most(row => row.utilisation_ratio), slowest = most(row => row.light_delay_p99_s);
  const light = (row, what = "light traffic") => row.light_delay_p50_s === null ? "no light traffic was sent"
    : `${what} waits ${millis(row.light_delay_p50_s)} (median), ${millis(row.light_delay_p99_s)} (p99)`;
  const { stopped_why, handed_back, handed_back_why, hostname, mode, version, uptime_s, unix_s } = latest.status;
  at("headline").textContent = stopped_why !== null ? `This router does not forward: ${stopped_why}`
    : handed_back ? `The kernel forwards instead of weir: ${handed_back_why}`
    : slowest && slowest.light_delay_p99_s >= 0.02 ? `Light traffic is delayed at ${slowest.port}: ${light(slowest, "it")}${flooder(slowest)}`
    : fullest && isFull(fullest) ? `The link of ${fullest.port} is full, and ${light(fullest)}${flooder(fullest)}` : "No link is full";
  at("router-about").textContent = `${hostname}, ${new Date(unix_s * 1e3).toLocaleTimeString()}. weir ${version}, ${mode}, running for ${elapsed(uptime_s)}.`;
  document.title = `${hostname}: weir`;
}

function showTalkers() {
  at("talkers-name").textContent = `${TITLES[kind]} through ${chosen}`;
  const all = latest.talkers.filter(row => row.port === chosen && row.by === KINDS[kind]);
  fill(at("talkers"), TALKER, all.map(row => ({ key: row.who, cells: [row.who, bits(row.rate_bps), bits(row.minute_bps),
    bits(row.five_minutes_bps), bar(row.share_ratio)] })));
  at("talkers-empty").hidden = all.length > 0;
}

function showWaiting() {
  const queue = latest.queues.find(row => row.port === chosen);
  at("waiting-name").textContent = `Backlogged sources at ${chosen}, and why`;
  const all = latest.waiting.filter(row => row.port === chosen);
  at("waiting-about").textContent = all.length === 0 ? ""
    : "By source, most queued bytes first. \u201cShare of link\u201d is what a source gets while the others wait as well.";
  fill(at("waiting"), WAITING, all.map(row => ({ key: row.who, cells: [row.who, count(row.flows),
    [el("span", { class: "whole" }, `${count(row.held.packets)} packet${row.held.packets === 1 ? "" : "s"}`), el("small", {}, scaled(row.held.bytes, "B"))], bar(row.queue_share_ratio),
    row.link_share_ratio === null ? "\u2013" : bar(row.link_share_ratio), millis(row.waited_s), row.why] })));
  at("waiting-empty").hidden = all.length > 0;
  at("waiting-empty").textContent = queue && queue.backlog.packets > 0
    ? `${count(queue.backlog.packets)} packets wait, but ${queue.discipline} does not report their sources. \u201cweir show flows\u201d may list them.`
    : "The queue is empty.";
}

function showDrops() {
  const now = new Map(latest.drop_history.map(row => [row.reason, row.packets / row.span_s]));
  fill(at("drops"), DROP, latest.drops.map(row => ({ key: row.reason, cells: [
    [row.reason, row.loss ? "" : el("small", {}, "not a loss")], row.meaning, `${count(Math.round(now.get(row.reason) || 0))}/s`,
    count(row.count.packets), ""] })));
  for (const tr of at("drops").children) {
    const cell = tr.lastElementChild;
    cell.classList.remove("none");
    cell.replaceChildren(spark(dropped.get(tr.dataset.key) || []));
  }
  at("drops-empty").hidden = latest.drops.length > 0;
}

function pairs(list, entries) {
  list.replaceChildren(...entries.map(([name, value, about]) => el("div", {}, el("dt", {}, name, about ? el("small", {}, about) : ""), el("dd", {}, value))));
}
function showGauges() {
  const queue = latest.queues.find(row => row.port === chosen);
  if (!queue) return;
  at("gauges-name").textContent = `Inside the queue of ${chosen}: ${queue.discipline}`;
  at("gauges-about").textContent = `Internal numbers of the discipline; \u201cweir describe ${queue.discipline}\u201d explains how it works.`;
  const about = gaugeWords[queue.discipline] || {};
  pairs(at("gauges"), [["queued packets", count(queue.backlog.packets)], ["queued bytes", scaled(queue.backlog.bytes, "B")],
    ["marked packets", count(queue.marked.packets)], ...Object.entries(queue.gauges).map(([name, value]) => [name, count(value), about[name]])]);
}

// ---- charts
const CHARTS = [
  { name: "Delay of light traffic", unit: millis, zero: 1e-3, lines: [["p99", "b", row => row.light_delay_p99_s], ["median", "a", row => row.light_delay_p50_s]] },
  { name: "Throughput", unit: bits, zero: 1e3, limit: row => row.limit,
    lines: [["offered to the queue", "b", row => row.offered_bps], ["sent", "a", row => row.sent_bps]] },
  { name: "Delay of backlogged flows", unit: millis, zero: 1e-3, lines: [["p99", "b", row => row.heavy_delay_p99_s], ["median", "a", row => row.heavy_delay_p50_s]] },
  { name: "Queued packets", unit: x => count(Math.round(x)), zero: 4, lines: [["packets", "a", row => row.backlog.packets]] },
  { name: "Dropped by the queue", unit: x => `${count(Math.round(x))}/s`, zero: 4, lines: [["packets", "b", row => row.dropped_packets / row.span_s]] },
];
for (const chart of CHARTS) {
  chart.said = el("output", {});
  chart.box = el("div", { class: "chart" });
  chart.legend = el("span", { class: "legend" }, ...chart.lines.map(([name, kind]) => el("span", { class: `key ${kind}` }, name)));
  at("charts").append(el("figure", {}, el("figcaption", {}, el("b", {}, chart.name), chart.legend, chart.said), chart.box));
}
// All charts have one cursor: a time before now, while the pointer is over one of them.
let cursorAge = null;
function point(age) {
  cursorAge = age;
  CHARTS.forEach(chart => chart.point());
}
const ago = ms => ms < 1500 ? "now" : ms < 90e3 ? `${Math.round(ms / 1e3)} s ago` : ms < 5400e3 ? `${Math.round(ms / 60e3)} min ago` : `${(ms / 3600e3).toFixed(1)} h ago`;
function ceiling(most) {
  const size = 10 ** Math.floor(Math.log10(most));
  return size * [1, 2, 4, 5, 10].find(step => step * size >= most * 0.999);
}
function path(rows, x, y, value) {
  let d = "", isDown = false;
  for (const row of rows) {
    const v = value(row);
    if (v === null || v === undefined) { isDown = false; continue; }
    d += `${isDown ? "L" : "M"}${x(row.t).toFixed(1)} ${y(v).toFixed(1)}`;
    if (!isDown) d += "h0.1"; // a single point is also visible
    isDown = true;
  }
  return d;
}
function draw(chart) {
  const [length, step] = SPANS[span], end = latest.t, rows = history[step].filter(row => row.t >= end - length);
  const width = Math.max(220, chart.box.clientWidth), height = 150, left = 80, right = 10, top = 10, bottom = 24;
  const limit = chart.limit && rows.length ? chart.limit(rows[rows.length - 1]) : null;
  const values = rows.flatMap(row => chart.lines.map(([, , value]) => value(row))).filter(v => v !== null && v !== undefined);
  const most = ceiling(Math.max(chart.zero, limit || 0, ...values));
  const x = t => left + (width - left - right) * (1 - (end - t) / length), y = v => top + (height - top - bottom) * (1 - v / most);
  const text = (words, attributes) => { const made = svg("text", attributes); made.textContent = words; return made; };
  const parts = [];
  let named = null;
  for (const share of [0, 0.5, 1]) {
    parts.push(svg("path", { class: "grid", d: `M${left} ${y(share * most).toFixed(1)}H${width - right}` }));
    parts.push(text(share === 0 ? "0" : chart.unit(share * most), { x: left - 8, y: y(share * most) + 4, "text-anchor": "end", class: "where" }));
  }
  for (const share of [1, 0.5, 0])
    parts.push(text(share === 0 ? "now" : ago(share * length), { x: x(end - share * length), y: height - 6, class: "where",
      "text-anchor": share === 1 ? "start" : share === 0 ? "end" : "middle" }));
  if (limit) {
    parts.push(svg("path", { class: "limit", d: `M${left} ${y(limit).toFixed(1)}H${width - right}` }));
    named = text("link rate", { x: left + 4, y: y(limit) - 5 < top + 6 ? y(limit) + 14 : y(limit) - 5, class: "where over" });
  }
  for (const [, kind, value] of chart.lines) parts.push(svg("path", { class: `line ${kind}`, d: path(rows, x, y, value) }));
  if (named) parts.push(named);
  const cursor = svg("path", { class: "cursor", d: "" });
  const shown = rows.length ? rows[rows.length - 1] : null;
  const isNone = row => chart.lines.every(([, , value]) => value(row) === null);
  const words = row => !row ? "no record yet" : isNone(row) ? `${ago(end - row.t)}: no packets` : `${ago(end - row.t)}: ` + chart.lines.map(([name, , value]) => `${name} ${value(row) === null ? "\u2013" : chart.unit(value(row))}`).join(", ");
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.name}, ${span}. ${words(shown)}` }, ...parts, cursor);
  const near = () => rows.reduce((best, row) => best && Math.abs(end - best.t - cursorAge) <= Math.abs(end - row.t - cursorAge) ? best : row, null);
  chart.point = () => {
    const row = cursorAge === null ? null : near();
    cursor.setAttribute("d", row ? `M${x(row.t).toFixed(1)} ${top}V${height - bottom}` : "");
    chart.said.textContent = words(row || shown);
  };
  picture.addEventListener("pointermove", event => point(length * (1 - (event.offsetX - left) / (width - left - right))));
  picture.addEventListener("pointerleave", () => point(null));
  chart.box.replaceChildren(picture);
  chart.point();
}
// Drops of the last minutes, as small columns.
function spark(rows) {
  const length = Math.min(SPANS[span][0], 600e3), width = 120, height = 22, end = latest.t;
  const inside = rows.filter(row => row.t >= end - length), most = Math.max(1, ...inside.map(row => row.rate));
  const step = Math.max(1, width * 1000 / length);
  const columns = inside.map(row => `M${(width * (1 - (end - row.t) / length) - step / 2).toFixed(1)} ${height}v-${Math.max(1, (height - 2) * row.rate / most).toFixed(1)}`);
  return svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `maximum per second: ${Math.round(most)}` }, svg("path", { d: columns.join(""), "stroke-width": step.toFixed(1) }));
}
function showCharts() {
  at("charts-name").textContent = `The last ${span} of ${chosen}`;
  CHARTS.forEach(draw);
}

// ---- records
function weigh(row) {
  const mean = means.get(row.port) || { received_bps: 0, sent_bps: 0 };
  for (const name of Object.keys(mean)) mean[name] += (row[name] - mean[name]) * -Math.expm1(-row.span_s / 300);
  means.set(row.port, mean);
}
const timed = (row, now) => ({ ...row, t: now - row.age_s * 1e3, limit: latest.ports.find(port => port.port === row.port)?.rate_bps ?? null });
async function loadMeans() {
  const [minutes, seconds] = await Promise.all(["minute", "second"].map(step => ask(`/v1/history?step=${step}&records=60`)));
  const since = minutes.reduce((least, row) => Math.min(least, row.age_s), Infinity); // of the minute that is not over
  means = new Map();
  [...minutes, ...seconds.filter(row => row.age_s + 0.5 < since)].sort((a, b) => b.age_s - a.age_s).forEach(weigh);
  gaugeWords = (await ask("/v1/openapi.json")).paths["/v1/queues"].get["x-gauges"];
}
async function load() {
  const port = chosen, now = latest.t;
  loaded = port;
  const rows = await Promise.all(STEPS.map(step => ask(`/v1/history?port=${encodeURIComponent(port)}&step=${step}&records=600`)));
  const drops = await ask("/v1/drop_history?records=600");
  if (chosen !== port) return;
  STEPS.forEach((step, n) => { history[step] = rows[n].map(row => timed(row, now)).sort((a, b) => a.t - b.t); });
  dropped = new Map();
  drops.reverse().forEach(row => addDrop(row, now));
}
function addDrop(row, now) {
  const rows = dropped.get(row.reason) || [];
  rows.push({ t: now - row.age_s * 1e3, rate: row.packets / row.span_s });
  while (rows.length > 600) rows.shift();
  dropped.set(row.reason, rows);
}
function add(line) {
  const row = record(chosen);
  latest.t = Date.now();
  if (meansAt > 0) latest.history.forEach(weigh);
  if (meansAt > 0 && latest.t - meansAt < 60e3) meansAt = latest.t;
  if (!row || loaded !== chosen) return;
  history.second.push(timed(row, latest.t));
  while (history.second.length > 600) history.second.shift();
  latest.drop_history.forEach(row => addDrop(row, latest.t));
}

// ---- choices
function named() {
  try { return decodeURIComponent(location.hash.slice(1)) || null; } catch { return null; }
}
function choose() {
  const ports = latest.ports, wanted = named();
  const paced = ports.filter(port => port.rate_bps !== null);
  const first = [...paced].sort((a, b) => a.rate_bps - b.rate_bps)[0] || ports[0];
  const port = ports.find(port => port.port === wanted) || ports.find(port => port.port === chosen) || first;
  chosen = port ? port.port : null;
}
at("ports").addEventListener("click", event => {
  const port = event.target.dataset.port;
  if (port) location.hash = encodeURIComponent(port);
});
addEventListener("hashchange", () => { chosen = null; show(); });
function choices(list, names, chosen, take) {
  for (const name of names) {
    const button = el("button", { type: "button", "aria-pressed": String(name === chosen) }, name === "minute" ? "1 minute" : name);
    button.addEventListener("click", () => {
      take(name);
      for (const other of list.children) other.setAttribute("aria-pressed", String(other === button));
      show();
    });
    list.append(button);
  }
}
choices(at("spans"), Object.keys(SPANS), span, name => { span = name; });
choices(at("kinds"), Object.keys(KINDS), kind, name => { kind = name; });
at("config").addEventListener("toggle", async () => {
  if (!at("config").open) return;
  try { pairs(at("settings"), Object.entries(await ask("/v1/config")).map(([key, value]) => [key, value === "" ? "none" : value])); } catch (error) { pairs(at("settings"), [["error", error.message]]); }
});

async function show() {
  if (!latest) return;
  choose();
  if (Date.now() - meansAt > 60e3) {
    meansAt = Date.now();
    try { await loadMeans(); } catch (error) { meansAt = 0; console.warn(error); }
  }
  if (loaded !== chosen || (SPANS[span][1] === "minute" && Date.now() - (history.minuteAt || 0) > 60e3)) {
    history.minuteAt = Date.now();
    try { await load(); } catch (error) { loaded = null; console.warn(error); }
  }
  showHeadline(); showPorts(); showCharts(); showTalkers(); showWaiting(); showDrops(); showGauges();
}

// ---- the streaming answer
let following = null;
async function follow() {
  const stop = new AbortController();
  following = stop;
  let text = "";
  const answer = await request("/v1/live", { signal: stop.signal });
  if (!answer.ok) throw new Error(await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the router closed the connection");
    const lines = (text + value).split("\n");
    text = lines.pop();
    const line = lines.filter(Boolean).pop();
    if (!line) continue;
    latest = JSON.parse(line);
    lastGood = Date.now();
    add();
    pulse();
    await show();
  }
}
function pulse(why) {
  const silent = lastGood ? Math.round((Date.now() - lastGood) / 1e3) : null;
  const isLost = !isAsking() && (silent === null || silent >= 5);
  at("pulse").textContent = isAsking() ? "waiting for the token" : silent === null ? why || "the router does not answer" : silent < 5 ? "live, every second"
    : `no answer for ${elapsed(silent)}: data is stale`;
  at("pulse").classList.toggle("lost", isLost);
}
async function keep() {
  for (;;) {
    if (document.hidden) { // nobody looks: another reader may have the place
      await new Promise(seen => document.addEventListener("visibilitychange", seen, { once: true }));
      continue;
    }
    try { await follow(); } catch (error) { pulse(error.message); loaded = null; }
    await new Promise(passed => setTimeout(passed, 1000));
  }
}
document.addEventListener("visibilitychange", () => { if (document.hidden && following) following.abort(); });
addEventListener("resize", () => { if (latest && loaded) showCharts(); });
setInterval(pulse, 2000);
keep();
