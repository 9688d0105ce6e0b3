"use strict";
function place(column, value) {
  const known = column.labels.indexOf(String(value));
  if (value !== null && value !== undefined && known >= 0) return known;
  const edges = (column.bins ?? "").split(":").map(text =>
    text.endsWith("inf") ? parseFloat(text.replace("inf", "Infinity")) : Number(text));
  if (column.bins && typeof value === "number" && edges[0] <= value && value <= edges.at(-1))
    return edges.slice(1, -1).filter(edge => edge <= value).length;
  if (column.missing === undefined)
    throw new Error(`column ${column.name} has no value that is known`);
  return column.labels.indexOf(column.missing);
}
function report(collection, record, words) {
  const d = collection.columns.length, sampled = Math.floor(words[0] * d / 2 ** 32);
  const column = collection.columns[sampled], k = column.labels.length;
  if (collection.columns.some(other => other.noise !== "keep" || other.others !== "nothing"))
    throw new Error("this client knows Smp[GRR] only");
  const values = collection.columns.map(other => place(other, record[other.name]));
  const y = words[1 + 2 * sampled], h = words[2 + 2 * sampled];
  return [sampled, h < column.integers[0] ? values[sampled] : Math.floor(y * k / 2 ** 32)];
}
function randomise(collection, record) {
  const words = crypto.getRandomValues(new Uint32Array(collection.words));
  return { collection: collection.identity, report: report(collection, record, words) };
}
function check(collection) {
  for (const { record, words, report: expected } of collection.vectors) {
    const drawn = words.match(/.{8}/g).map(word => parseInt(word, 16));
    if (JSON.stringify(report(collection, record, drawn)) !== JSON.stringify(expected))
      throw new Error("wrong report");
  }
}
