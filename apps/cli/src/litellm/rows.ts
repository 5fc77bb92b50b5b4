import type { Json } from '../apply/desiredState.ts';
import { asObject } from './deployment.ts';

/** Rows from the response of `/key/list`, `/key/info` or `/team/list`, or from a CSV. */
export function readRows(content: string, name: string): Json[] {
  if (!/^\s*[[{]/.test(content)) return readCsv(content);
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    // The parser's message repeats a piece of the file, which may be a secret.
    throw new Error(`${name} is not JSON.`);
  }
  const { keys, teams, data, info } = asObject(value);
  const found = [value, keys, teams, data].find(Array.isArray) ?? (info ? [info] : undefined);
  if (!found) throw new Error(`${name} contains no list of keys or teams.`);
  // Without `return_full_object=true`, LiteLLM lists only hashes.
  if (found.some((entry: unknown) => typeof entry === 'string'))
    throw new Error(`${name} contains only hashes of keys. Call /key/list with return_full_object=true.`);
  return found.map((entry: unknown) => flatten(asObject(entry)));
}

/** `/key/info` nests the key's fields; a budget shared by keys is nested too. */
function flatten({ info, litellm_budget_table: budget, ...row }: Json): Json {
  const own = Object.entries({ ...row, ...asObject(info) }).filter(([, value]) => value !== null);
  const { max_budget, budget_duration, rpm_limit, tpm_limit, max_parallel_requests, model_max_budget } =
    asObject(budget);
  const shared = {
    ...{ max_budget, budget_duration, rpm_limit, tpm_limit, max_parallel_requests },
    model_max_budget,
  };
  const set = Object.entries(shared).filter(([, value]) => value !== null && value !== undefined);
  return { ...Object.fromEntries(set), ...Object.fromEntries(own) };
}

/** RFC 4180. */
function readCsv(content: string): Json[] {
  const [head, ...lines] = csvRecords(content);
  if (!head) return [];
  return lines.map((line) => Object.fromEntries(head.map((name, at) => [name.trim(), cell(line[at] ?? '')])));
}

/** Parses lists, which are in JSON or in Postgres' format. */
function cell(value: string): unknown {
  if (/^\[.*\]$/.test(value)) {
    try {
      return JSON.parse(value);
    } catch {
      return value;
    }
  }
  return /^\{[^":]*\}$/.test(value) ? value.slice(1, -1).split(',').filter(Boolean) : value;
}

function csvRecords(content: string): string[][] {
  const records: string[][] = [];
  let [fields, field, isQuoted]: [string[], string, boolean] = [[], '', false];
  const endField = () => {
    fields.push(field);
    field = '';
  };
  const endRecord = () => {
    endField();
    if (fields.length > 1 || fields[0] !== '') records.push(fields);
    fields = [];
  };
  for (let at = 0; at < content.length; at++) {
    const char = content[at] ?? '';
    if (isQuoted && char === '"' && content[at + 1] === '"') field += content[++at];
    else if (char === '"') isQuoted = !isQuoted;
    else if (!isQuoted && char === ',') endField();
    else if (!isQuoted && char === '\n') endRecord();
    else if (isQuoted || char !== '\r') field += char;
  }
  endRecord();
  return records;
}
