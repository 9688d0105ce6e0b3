"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const state = { sort: null, descending: false, hidden: new Set() };
  const MOST_VALUES = 50; // of an attribute, a line each
  const FEW_PROTOCOLS = 8; // more have a filter
  const MOST_NAMED = 3; // protocols in a sentence
  const MOST_COLUMNS = 40; // in the chart
  const decoded = new Map(); // estimates, decoded when first shown
  const views = new Map();

  const fill = (id, entries) => {
    $(id).replaceChildren(...entries.map(([value, text]) => new Option(cut(text), value)));
    $(id).disabled = entries.length < 2; // nothing else to draw
    $(id).title = entries.length < 2 ? "the only one in this file" : "";
  };
  const dataset = () => page.datasets[$("dataset").value];
  const metric = () => page.metrics[$("metric").value];
  const postprocess = () => $("postprocess").value;
  const errorsOf = (set) => set.errors[metric().name][postprocess()];
  const scale = () => document.querySelector("input[name=scale]:checked").value;
  const cut = (text, most = 40) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const short = (x) => (x === null ? "–" : x.toExponential(3));
  const withError = (mean, error) => { // 7.034(21)e-5: the error in units of the last digit
    if (mean === null || error === null || !(error > 0) || mean === 0) return short(mean);
    const power = Math.floor(Math.log10(Math.abs(mean)));
    const part = error / 10 ** power;
    const digits = Math.max(0, 1 - Number(part.toExponential(1).split("e")[1]));
    return `${(mean / 10 ** power).toFixed(digits)}(${Math.round(part * 10 ** digits)})e${power}`;
  };

  // ---------------------------------------------------------------------------------------------- charts

  // colours by place: the name of somebody's own protocol may be no name of CSS
  const STYLES = { color: (_, p) => `var(--protocol-${p})`, shape: (entry) => entry.shape, strokeDash: (entry) => dashes(entry) };
  const LINE = 1.6; // its width, in which dashes are measured
  const dashes = (entry) => (entry.dash.length ? entry.dash.map((x) => LINE * x) : [1, 0]);

  // bars instead of bands: where x may go back along a curve through the epsilons, or there is one x alone
  function curvesOf(description, height, x, bars) {
    const spec = structuredClone(page.charts.curves), domain = page.protocols.map((entry) => entry.label);
    for (const { encoding } of spec.layer) {
      Object.assign(encoding.x, x);
      encoding.y.scale = scale() === "log" ? { type: "log", nice: false, padding: 8 } : { zero: true };
      for (const [channel, of] of Object.entries(STYLES)) if (encoding[channel]) encoding[channel].scale = { domain, range: page.protocols.map(of) };
    }
    if (bars) spec.layer[0].mark = { type: "rule", strokeWidth: 2, opacity: 0.6 };
    return { ...spec, description, height };
  }

  async function draw(id, spec, data) {
    const old = views.get(id);
    if (old) old.finalize();
    const rows = Object.values(data)[0];
    const drawable = (layer) => !["theory", "published"].includes(layer.name) || rows.some((row) => row[layer.name] !== null);
    const named = JSON.parse(JSON.stringify(spec.layer.filter(drawable)), (key, value) => (key === "title" && value === "error" ? metric().label : value));
    const chart = { ...spec, layer: named, datasets: data };
    if (id === "column-chart") chart.height = 40 * rows.length;
    if (id === "frequency-chart") {
      chart.height = Math.max(40, 18 * rows.length);
      chart.layer[0].encoding.x.scale = {
        domain: [Math.min(0, ...rows.map((row) => row.estimate ?? 0)), 1.02 * Math.max(...rows.flatMap((row) => [row.truth, row.high ?? 0]))], nice: false,
      };
    }
    const result = await vegaEmbed($(id), chart, { renderer: "svg", actions: false, ast: false });
    views.set(id, result);
    const drawing = $(id).querySelector("svg");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", spec.description.replace(/^error/, metric().label));
    $(id).dataset.drawn = String(Number($(id).dataset.drawn || 0) + 1);
  }

  function point(set, p, e, x, order) {
    const errors = errorsOf(set);
    const mean = errors.mean[p][e], error = errors.error[p][e];
    const theory = errors.theory && $("theory").checked ? errors.theory[p][e] : null;
    const published = errors.published && $("published").checked ? errors.published[p][e] : null;
    const low = error === null ? mean : mean > 0 ? Math.max(mean - error, mean / 1000) : mean - error;
    return {
      protocol: page.protocols[p].label, x, order, mean, low, high: mean + (error || 0), theory, published,
      at: `ε = ${page.epsilons[e]}, ${set.name}`, value: withError(mean, error),
      closed: theory === null ? "–" : short(theory), paper: published === null ? "–" : short(published),
    };
  }

  const filtered = (p) => $("protocols").querySelectorAll("label")[p].hidden;
  const shown = () => page.protocols.map((_, p) => p).filter((p) => !state.hidden.has(p) && !filtered(p));

  // data sets that differ from the chosen one in this size alone
  const alike = (axis) => page.datasets.filter((set) => Object.keys(set.size).every((other) => other === axis || set.size[other] === dataset().size[other]))
    .sort((a, b) => a.size[axis] - b.size[axis]);

  function drawErrors() {
    const against = $("against").value, overSizes = against !== "epsilon";
    const curves = [];
    for (const p of shown()) {
      if (overSizes) {
        for (const set of alike(against)) curves.push(point(set, p, Number($("at").value), set.size[against], set.size[against]));
      } else {
        dataset().x.forEach((x, e) => curves.push(point(dataset(), p, e, x, x)));
      }
    }
    const rows = curves.filter((row) => row.mean !== null && (row.mean > 0 || scale() === "linear"));
    const set = dataset(), errors = errorsOf(set);
    const notes = [`${!overSizes && page.epsilons.length === 1 ? "Bars" : "Bands"}: one standard error.`];
    if (errors.theory && $("theory").checked) notes.push("Thin lines: theory.");
    if (!overSizes && errors.published && $("published").checked) {
      notes.push("Open circles: the paper’s published points.");
      if (postprocess() === page.default.postprocess) set.caveats.forEach((text) => notes.push(text[0].toUpperCase() + text.slice(1) + "."));
      if (!set.balanced) notes.push("The paper’s users are in balanced groups, these are not.");
    }
    notes.push(...(set.undefined[postprocess()] || []).map((line) => `${line}.`));
    const hidden = curves.filter((row) => row.mean !== null).length - rows.length;
    notes.push(page.guaranteeName, set.baselines[metric().name]);
    if (hidden) notes.push(`${hidden} means are not positive: the linear scale shows them.`);
    $("error-note").textContent = notes.join(" ");
    const names = JSON.stringify(page.epsilons), at = JSON.stringify(set.x); // an expression of Vega: `ln 2` for 0.6931
    const x = overSizes
      ? { axis: { title: page.axes[against], format: "~s", tickCount: 5 }, scale: { type: "log", nice: false, padding: 15 } }
      : {
        axis: { title: "ε", values: set.x, labelExpr: `${names}[indexof(${at}, datum.value)] || datum.label`, labelOverlap: true },
        scale: { zero: false, nice: false, padding: 15 },
      };
    return draw("error-chart", curvesOf("error of each protocol", 360, x, !overSizes && page.epsilons.length === 1), { curves: rows });
  }

  function estimates(set, kind) {
    const key = `${set.name}\n${kind}`;
    if (!decoded.has(key)) {
      const bytes = Uint8Array.from(atob(set.estimates[kind].data), (c) => c.charCodeAt(0));
      decoded.set(key, new DataView(bytes.buffer));
    }
    const { low, step } = set.estimates[kind], steps = decoded.get(key);
    const total = set.truth.length, epsilons = page.epsilons.length;
    const read = (p, e, v, i) => {
      const level = steps.getUint16(2 * (((p * epsilons + e) * total + v) * 3 + i), true);
      return level === 65535 ? null : low + step * level;
    };
    return read;
  }

  function drawFrequencies() {
    if (!page.kept.length) return undefined;
    const set = dataset(), j = Number($("attribute").value), p = Number($("protocol").value), e = Number($("epsilon").value);
    const kind = $("estimates").value, read = estimates(set, kind);
    const offset = set.domain.slice(0, j).reduce((a, b) => a + b, 0);
    const text = (x) => (x === null ? "–" : x.toFixed(4));
    const values = [];
    for (let v = 0; v < set.domain[j]; v += 1) {
      const [estimate, low, high] = [0, 1, 2].map((i) => read(p, e, offset + v, i));
      values.push({
        value: set.labels ? set.labels[j][v] : String(v), truth: set.truth[offset + v], estimate, low: low ?? estimate, high: high ?? estimate,
        truth_text: set.hidden[offset + v] ?? text(set.truth[offset + v]), estimate_text: text(estimate), interval: `${text(low)} … ${text(high)}`,
      });
    }
    const most = [...values].sort((a, b) => b.truth - a.truth).slice(0, MOST_VALUES);
    const shownValues = values.length > MOST_VALUES ? values.filter((row) => row.truth > most.at(-1).truth || most.includes(row)) : values;
    $("frequency-chart").style.setProperty("--chosen", `var(--protocol-${p})`);
    const cut0 = kind === "none" ? undefined : values.filter((row) => row.truth > 0 && row.estimate > row.truth).sort((a, b) => b.estimate / b.truth - a.estimate / a.truth)[0];
    $("frequency-note").textContent = `Bars: truth. Points: mean of the ${kind === "none" ? "unbiased estimates, which may be negative" : `estimates after ${kind}`}; lines: where the estimate of one more collection falls (95 % prediction interval).` +
      (cut0 && cut0.estimate > 1.2 * cut0.truth ? ` After ${kind} rare values come out too large: ${cut(cut0.value)} ${cut0.estimate_text} on average, not ${cut0.truth_text}.` : "") +
      (shownValues.length < values.length ? ` The ${shownValues.length} most frequent of ${values.length} values.` : "") +
      (Object.keys(set.hidden).length ? " Values of few users, and what would give them away, are not shown." : "") +
      ` ${page.guaranteeName}` + (values.length > 1 ? ` Equal shares would be ${text(1 / values.length)} each.` : "");
    return draw("frequency-chart", page.charts.frequencies, { values: shownValues });
  }

  function drawPrivacy() {
    const kind = $("loss").value, losses = dataset().losses[kind];
    $("privacy-note").textContent = losses
      ? [`Each curve goes through the epsilons of a protocol: the ${metric().larger ? "higher" : "lower"} and the further left, the better.`,
        page.lossNotes[kind] ? `The ${page.lossNotes[kind]}.` : "", page.guaranteeName,
        dataset().baselines[metric().name], dataset().guessBaselines[kind] || ""].filter(Boolean).join(" ")
      : `There is none for ${dataset().name} in this file.`;
    if (!losses) {
      $("privacy-chart").replaceChildren();
      return undefined;
    }
    const curves = shown().flatMap((p) => page.epsilons.map((_, e) => point(dataset(), p, e, losses[p][e], dataset().x[e])))
      .filter((row) => row.mean !== null && (row.mean > 0 || scale() === "linear") && row.x !== null).map((row) => ({ ...row, theory: null, published: null }));
    const x = { title: kind, scale: { zero: false, nice: false, padding: 15 } };
    return draw("privacy-chart", curvesOf(`error against the ${kind}`, 320, x, true), { curves });
  }

  // ----------------------------------------------------------------------------------------------- table

  function rows() {
    const set = dataset(), errors = errorsOf(set);
    const found = shown().map((p) => ({
      label: page.protocols[p].label, name: page.protocols[p].name, mean: errors.mean[p], error: errors.error[p], best: errors.best[p],
    }));
    if (state.sort === null) return found;
    const sign = metric().larger ? -1 : 1; // the best ones first
    const key = (row) => (state.sort < 0 ? row.label : row.mean[state.sort] === null ? Infinity : sign * row.mean[state.sort]);
    found.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
    return state.descending ? found.reverse() : found;
  }

  function drawTable() {
    const heads = ["protocol", ...page.epsilons.map((name) => `ε = ${name}`)].map((text, i) => {
      const head = document.createElement("th"), button = document.createElement("button");
      const column = i - 1;
      head.scope = "col";
      if (state.sort === column) head.setAttribute("aria-sort", state.descending !== (metric().larger && column >= 0) ? "descending" : "ascending");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => {
        state.descending = state.sort === column && !state.descending;
        state.sort = column;
        drawTable();
        $("table").querySelectorAll("th button")[i].focus();
      });
      head.append(button);
      return head;
    });
    const line = document.createElement("tr");
    line.append(...heads);
    $("table").tHead.replaceChildren(line);
    $("table").tBodies[0].replaceChildren(...rows().map((row) => {
      const tr = document.createElement("tr"), name = document.createElement("th");
      name.scope = "row";
      name.textContent = cut(row.label);
      name.title = row.label;
      tr.append(name);
      row.mean.forEach((mean, e) => {
        const cell = document.createElement("td");
        cell.textContent = withError(mean, row.error[e]) + (row.best[e] ? " *" : "");
        if (row.best[e]) cell.className = "best";
        tr.append(cell);
      });
      return tr;
    }));
    const set = dataset();
    $("caption").textContent = `${metric().label} (standard error of the last digits): ${set.name}, n = ${set.n.toLocaleString("en")}, ${postprocess()}; ${[starred(), errorsOf(set).advice, page.guarantee].filter(Boolean).join("; ")}`;
  }

  const starred = () => (dataset().repetitions > 1 ? "* not significantly worse than the best in its column" : `* the ${metric().larger ? "largest" : "smallest"} in its column`);

  function csv() {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = ["dataset,users,metric,postprocess,protocol,epsilon,error,standard_error,among_best,guarantee,assignment,sampler,seed"];
    const { guarantee, assignment, sampler, seed } = page.run;
    const set = dataset();
    for (const row of rows()) {
      row.mean.forEach((mean, e) => lines.push([
        quoted(set.name), set.n, metric().name, postprocess(), quoted(row.name), set.x[e], mean ?? "", row.error[e] ?? "", Boolean(row.best[e]),
        guarantee, assignment, sampler, seed,
      ].join(",")));
    }
    return lines.join("\n") + "\n";
  }

  function latex() {
    const safe = (text) => text.replace(/[\\&%$#_{}~^]/g, (c) => ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" }[c] || `\\${c}`));
    const number = (x) => {
      const [digits, power] = x.toExponential(2).split("e");
      return `${digits} \\cdot 10^{${Number(power)}}`;
    };
    const cell = (mean, best) => (mean === null ? "--" : best ? `$\\mathbf{${number(mean)}}$` : `$${number(mean)}$`);
    const heads = page.epsilons.map((name) => `$\\varepsilon = ${name.replace("ln ", "\\ln ")}$`);
    const set = dataset();
    return [
      `% ${metric().label}: ${set.name}, n = ${set.n}, ${postprocess()}; ${starred().replace("*", "bold:")}${page.guarantee && `; ${page.guarantee}`}`,
      `\\begin{tabular}{l${"r".repeat(heads.length)}}`, "\\toprule", `protocol & ${heads.join(" & ")} \\\\`, "\\midrule",
      ...rows().map((row) => `${safe(row.label)} & ${row.mean.map((mean, e) => cell(mean, row.best[e])).join(" & ")} \\\\`),
      "\\bottomrule", "\\end{tabular}", "",
    ].join("\n");
  }

  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea"); // browsers that keep the clipboard from files
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    $("copied").textContent = `${what} copied`;
  }

  // ------------------------------------------------------------------------------------------ the whole page

  const PAIRING = { // what protocols share in a repetition, by sampler
    users: "the same users and the same random numbers. Differences are taken in pairs, which takes out the shared noise",
    counts: "the same users, who sample the same attributes; other random numbers are their own. Differences are taken in pairs, which takes out less noise than with the sampler users",
    marginals: "the same users, but random numbers of their own. Differences are taken in pairs, which is valid but takes out hardly any noise",
  };

  const WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
  const inWords = (number) => WORDS[number] || String(number);
  const listed = (names) => {
    const first = names.length > MOST_NAMED ? [...names.slice(0, MOST_NAMED - 1), `${inWords(names.length - MOST_NAMED + 1)} others`] : names;
    return first.length > 1 ? `${first.slice(0, -1).join(", ")} and ${first.at(-1)}` : first[0];
  };

  function inShort() { // over all data sets and epsilons: [sentence, what its words mean]
    const best = page.datasets.map((set) => errorsOf(set).best); // [data set][protocol][epsilon]
    const cases = best.flatMap((rows) => rows[0].map((_, e) => rows.flatMap((row, p) => (row[e] ? [p] : [])))).filter((some) => some.length);
    const labels = page.protocols.map((entry) => entry.label), several = page.datasets.length > 1;
    if (!cases.length) return ["No protocol has an estimate of every attribute.", ""];
    if (labels.length === 1) return [`${labels[0]} alone: nothing to compare it with.`, ""];
    const noise = page.datasets.every((set) => set.repetitions > 1);
    const of = `By ${metric().label} after ${postprocess()}`.replace("after none", "of unbiased estimates");
    const note = !noise ? `${of}. A single repetition says nothing about chance.`
      : `${of}, at 95\u00a0% in each case. Best: all others are significantly worse. Among the best: not significantly worse than the best mean.`;
    const where = (count) => {
      if (cases.length === 1) return several ? "" : ` at ε = ${page.epsilons[0]}`;
      const name = several ? "cases" : "epsilons", all = inWords(cases.length);
      const amount = count < cases.length ? `${inWords(count)} of ${all}` : cases.length === 2 ? "both" : `all ${all}`;
      return ` ${several ? "in" : "at"} ${amount} ${name}`;
    };
    const groups = new Map(); // protocols that are among the best in the same cases, alone as often
    labels.forEach((label, p) => {
      const starred = cases.map((some) => some.includes(p)), count = starred.filter(Boolean).length;
      const alone = cases.filter((some) => some.length === 1 && some[0] === p).length;
      if (count) groups.set(String(starred), { count, alone, names: [...(groups.get(String(starred))?.names || []), label] });
    });
    const [first, ...rest] = [...groups.values()].sort((a, b) => b.count - a.count || b.alone - a.alone);
    if (first.count === cases.length && first.names.length === labels.length) return [`All protocols are among the best${where(first.count)}.`, note];
    const said = ({ count, alone, names }) => `${listed(names)} ${names.length > 1 ? "are" : "is"} ${alone === count ? "best" : "among the best"}${where(count)}${alone && alone < count ? `, alone ${several ? "in" : "at"} ${inWords(alone)}` : ""}`;
    const more = rest.slice(0, 2).map(({ count, names }) => `${listed(names)}${where(count).replace(/ of .*/, "")}`);
    const text = [said(first), ...(more.length ? [more.join(", ")] : [])].join("; ");
    return [`${text}${several ? ` (${page.datasets.length} data sets × ${page.epsilons.length} epsilon${page.epsilons.length > 1 ? "s" : ""})` : ""}.`, note];
  }

  function drawHeadline() {
    [$("headline").textContent, $("headline-note").textContent] = inShort();
    $("guarantee").textContent = page.guarantee && `${page.guarantee[0].toUpperCase()}${page.guarantee.slice(1)}.`;
  }

  function drawDecision() {
    const { decision } = dataset();
    $("decision").hidden = !decision;
    $("headline-title").textContent = decision ? "The evidence in short" : "In short";
    if (!decision) return undefined;
    const entries = decision.entries.map(({ title, text }) => [element("dt", title), element("dd", text)]);
    $("lead").replaceChildren(...entries[0]);
    $("reasons").replaceChildren(...entries.slice(1).flat());
    $("columns").tBodies[0].replaceChildren(...decision.columns.map((column) => {
      const line = document.createElement("tr"), name = element("th", cut(column.name));
      name.scope = "row";
      name.title = column.name;
      line.append(name, ...column.numbers.map((text) => element("td", text)));
      line.className = column.useful ? "" : "useless";
      return line;
    }));
    const rows = decision.columns.slice(0, MOST_COLUMNS).map((column, row) => ({ ...column, row }));
    $("column-note").textContent = "How close each column is: 95\u00a0% of its estimated shares are within so many points of the truth; and how many people, asked without privacy, would tell as much." +
      (rows.some((row) => !row.useful) ? " Grey: better left out." : "") +
      (rows.length < decision.columns.length ? ` The first ${rows.length} of ${decision.columns.length} columns; the table has all.` : "");
    const spec = structuredClone(page.charts.columns);
    const texts = JSON.stringify(rows.map(({ name, asked }) => [cut(name, 30), asked === "–" ? "all hold one value" : `as asking ${asked}`]));
    for (const { encoding } of spec.layer) encoding.y.axis.labelExpr = `${texts}[datum.value]`;
    spec.layer[0].encoding.x.scale.domain = [0, 1.25 * Math.max(...rows.map((row) => row.margin ?? 0)) || 1]; // with room for the numbers
    return draw("column-chart", spec, { columns: rows });
  }

  function element(kind, text) {
    const made = document.createElement(kind);
    made.textContent = text;
    return made;
  }

  function enable() { // a control that would draw nothing says why
    const errors = errorsOf(dataset());
    for (const [id, known] of [["theory", errors.theory], ["published", errors.published]]) {
      $(id).disabled = !known;
      $(`${id}-why`).textContent = known ? "" : `(none for ${metric().label}, ${postprocess()})`;
    }
    if (!errors.published) $("published-why").textContent = `(none for ${dataset().name}, ${metric().label}, ${postprocess()})`;
  }

  function filter() { // protocols whose name has the text
    const wanted = $("filter").value.trim().toLowerCase();
    for (const [p, label] of [...$("protocols").querySelectorAll("label")].entries()) {
      const { name, label: text } = page.protocols[p];
      label.hidden = !`${name} ${text}`.toLowerCase().includes(wanted);
    }
    drawAll();
  }

  async function drawAll() {
    enable();
    drawHeadline();
    drawTable();
    await Promise.all([drawDecision(), drawErrors(), drawFrequencies(), drawPrivacy()]);
    document.body.dataset.ready = String(Number(document.body.dataset.ready || 0) + 1);
  }

  function fillAttributes() {
    const set = dataset();
    fill("attribute", set.attributes.map((name, j) => [j, `${name} (${set.domain[j]})`]));
    $("about").textContent = `${page.datasets.length > 1 ? `${set.name}: ` : ""}${set.n.toLocaleString("en")} users, ${set.domain.length} attributes, ${set.repetitions} repetitions` +
      (set.source ? `; data: ${set.source}` : "") + (page.complete ? "" : "; the sweep is not finished");
    $("contents").hidden = !page.contents;
    $("contents").textContent = page.contents;
    $("published-label").hidden = !page.datasets.some((d) => Object.values(d.errors).some((each) => Object.values(each).some((e) => e.published)));
  }

  function explain(id, entries) {
    $(id).append(...entries.flatMap(([name, text]) => {
      const term = document.createElement("em");
      term.textContent = name;
      return [document.createElement("br"), term, `: ${text}`];
    }));
  }

  // errors span powers of ten; a score, of which more is better, does not
  const setScale = () => { document.querySelector(`input[name=scale][value=${metric().larger ? "linear" : "log"}]`).checked = true; };

  function start() {
    const shades = CSS.supports("color", "oklch(from red l c h)"); // page.css: lighter on a dark page
    page.protocols.forEach(({ colour }, p) => document.documentElement.style.setProperty(`--protocol-${p}`, shades ? `oklch(from ${colour} var(--shade))` : colour));
    fill("dataset", page.datasets.map((set, i) => [i, set.name]));
    fill("metric", page.metrics.map((entry, i) => [i, entry.label]));
    $("metric").value = page.metrics.findIndex((entry) => entry.name === page.default.metric);
    setScale();
    fill("postprocess", page.postprocess.map((entry) => [entry.name, entry.name]));
    $("postprocess").value = page.default.postprocess;
    explain("metrics", page.metrics.map((entry) => [entry.label, entry.summary + (entry.larger ? " Larger is better." : "")]));
    explain("postprocessings", page.postprocess.map((entry) => [entry.name, entry.summary]));
    fill("at", page.epsilons.map((name, e) => [e, name]));
    fill("protocol", page.protocols.map((entry, p) => [p, entry.label]));
    fill("epsilon", page.epsilons.map((name, e) => [e, name]));
    fill("estimates", page.kept.map((name) => [name, name === "none" ? "unbiased" : `after ${name}`])); // the unbiased ones first
    fill("loss", page.losses.map((name) => [name, name]));
    fill("against", [["epsilon", "epsilon"], ...Object.entries(page.axes)]);
    $("against-label").hidden = !Object.keys(page.axes).length;
    $("against").value = Object.keys(page.axes)[0] || "epsilon";
    $("frequencies").hidden = !page.kept.length;
    for (const [p, entry] of page.protocols.entries()) {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.value = entry.name;
      box.addEventListener("change", () => {
        if (box.checked) state.hidden.delete(p); else state.hidden.add(p);
        drawAll();
      });
      label.title = entry.summary;
      label.insertAdjacentHTML("beforeend", `<svg viewBox="0 0 24 14" aria-hidden="true"><path d="M0 7H24" stroke="var(--protocol-${p})" stroke-width="1.6" stroke-dasharray="${dashes(entry)}"/><path d="${entry.shape}" transform="translate(12 7) scale(4.5)" fill="var(--protocol-${p})"/></svg>`);
      label.prepend(box);
      label.append(cut(entry.label));
      $("protocols").append(label);
    }
    $("filter-label").hidden = page.protocols.length <= FEW_PROTOCOLS;
    const families = new Set(page.protocols.map((entry) => entry.label.split("[")[0]));
    $("families").replaceChildren(...[...families].map((name) => new Option(name)));
    $("filter").addEventListener("input", filter);
    const showAt = () => { $("at-label").hidden = $("against").value === "epsilon"; };
    showAt();
    fillAttributes();
    const recommend = () => { // frequencies are first shown as recommended
      const { decision } = dataset();
      if (decision) [$("protocol").value, $("epsilon").value] = [decision.protocol, decision.epsilon];
    };
    recommend();
    $("dataset").addEventListener("change", () => { fillAttributes(); recommend(); drawAll(); });
    $("against").addEventListener("change", () => { showAt(); drawErrors(); });
    $("metric").addEventListener("change", () => { setScale(); drawAll(); });
    $("postprocess").addEventListener("change", drawAll);
    for (const id of ["at", "theory", "published"]) $(id).addEventListener("change", drawErrors);
    for (const id of ["attribute", "protocol", "epsilon", "estimates"]) $(id).addEventListener("change", drawFrequencies);
    for (const box of document.querySelectorAll("input[name=scale]")) box.addEventListener("change", () => { drawErrors(); drawPrivacy(); });
    $("loss").addEventListener("change", drawPrivacy);
    $("copy-csv").addEventListener("click", () => copy(csv(), "CSV"));
    $("copy-latex").addEventListener("click", () => copy(latex(), "LaTeX"));
    for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
    $("made").textContent = `gpu-rsfd ${page.made.package}, stream version ${page.made.stream}, backend ${page.made.backend || "unknown"}, ${page.made.seconds} s of simulation.` +
      (page.command && page.readsFiles ? " The command, beside options that say how columns of the file became values (--columns, --bins, --missing, --domain-file):"
        : page.command ? " The command:" : " The data were in memory only, so there is no command that repeats it.");
    $("command").hidden = !page.command;
    $("command").textContent = page.command || "";
    $("spec").textContent = page.spec;
    $("pairing").textContent = PAIRING[page.run.sampler];
    drawAll();
  }

  start();
})();
