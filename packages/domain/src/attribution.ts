import { createHash } from 'node:crypto';

/** Who and what a request is for, from its headers and its key. */
export interface Attribution {
  readonly user?: string;
  readonly team?: string;
  readonly project?: string;
  readonly env?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly namespace?: string;
  readonly workload?: string;
  readonly pod?: string;
  readonly session?: HashedText;
  readonly workloadType?: HashedText;
}

/** A value that is compared by its hash, and displayed truncated. */
export interface HashedText {
  readonly text: string;
  readonly sha256: Uint8Array;
}

/** Values that an operator set on a key: headers can't override them. */
export type LockedAttribution = Partial<Pick<Attribution, 'user' | 'team' | 'project' | 'env' | 'labels'>>;

/** Where a policy finds attribution beside the headers of this service. */
export interface AttributionSources {
  /** By the name of a header, in lower case: what it says, such as `user` or `labels.tier`. Each attribution has one header. */
  readonly headers: ReadonlyMap<string, string>;
  /** The body names the user. */
  readonly userFromBody: boolean;
}

/** What one request says elsewhere than in the headers of this service. */
export interface SaidElsewhere extends Pick<AttributionSources, 'headers'> {
  /** The user whom the body names. */
  readonly user: string | undefined;
}

/** Header names as Node gives them (lower case); a repeated header arrives as an array or joined by commas. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

const MAX_VALUE = 256;
const MAX_LABEL_KEY = 64;
const MAX_LABELS = 32;
export const NOTHING_LOCKED: LockedAttribution = {};
export const NO_ATTRIBUTION: Attribution = { labels: {} };

/** Headers in which agents name the conversation: of Claude Code, Codex (today and before), and opencode. */
const AGENT_SESSIONS = [
  'x-claude-code-session-id',
  'session-id',
  'session_id',
  'x-session-affinity',
] as const;
/** Labels of the parts of a conversation, by the headers in which the same agents name them. */
const AGENT_LABELS = [
  ['agent', 'x-claude-code-agent-id'],
  ['parent_agent', 'x-claude-code-parent-agent-id'],
  ['thread', 'thread-id'],
  ['parent_session', 'x-parent-session-id'],
] as const;

/**
 * Reads the ten `X-Svc-*` headers, what coding agents say of their sessions, and what a policy finds elsewhere. In this order: what the
 * key locks; `X-Svc-*`; the headers that the policy maps; agents' headers and the body. Malformed values are truncated or skipped: they
 * never fail a request.
 */
export function parseAttribution(
  headers: Headers,
  locked: LockedAttribution = NOTHING_LOCKED,
  elsewhere?: SaidElsewhere,
): Attribution {
  // The common case.
  if (locked === NOTHING_LOCKED && !elsewhere && !saysSomething(headers)) return NO_ATTRIBUTION;
  const mapped = elsewhere ? mappedValues(headers, elsewhere.headers) : NOTHING_MAPPED;
  const said = (name: string) => cut(value(headers, `x-svc-${name}`) || mapped.get(name));
  const plain = {
    user: locked.user ?? said('user') ?? cut(plainText(elsewhere?.user)),
    team: locked.team ?? said('team'),
    project: locked.project ?? said('project'),
    env: locked.env ?? said('env'),
    namespace: said('namespace'),
    workload: said('workload'),
    pod: said('pod'),
    session: hashed(value(headers, 'x-svc-session-id') || mapped.get('session') || agentSession(headers)),
    workloadType: parseWorkloadType(headers),
  };
  return { ...present(plain), labels: parseLabels(headers, locked.labels, mapped) };
}

const NOTHING_MAPPED: ReadonlyMap<string, string> = new Map();

/** By attribution, what the headers that a policy maps say. */
function mappedValues(headers: Headers, mapping: AttributionSources['headers']): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const [header, attribution] of mapping) {
    const text = value(headers, header);
    if (text) values.set(attribution, text);
  }
  return values;
}

/** A text of a body, with no more in it than a header may have: the ledger stores no NUL, and no half of a character. */
function plainText(text: string | undefined): string | undefined {
  if (!text) return undefined;
  return Buffer.from(text)
    .toString()
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim();
}

function saysSomething(headers: Headers): boolean {
  for (const name in headers) if (name.startsWith('x-svc-')) return true;
  return agentSession(headers) !== undefined;
}

/** Looked up name by name: this is done for every request. */
function agentSession(headers: Headers): string | undefined {
  for (const name of AGENT_SESSIONS)
    if (headers[name] !== undefined) return value(headers, name) || undefined;
  return undefined;
}

/** The session id of a request, from this service's header or from its agent's, not truncated; undefined without one. */
export function sessionIdOf(headers: Headers): string | undefined {
  return value(headers, 'x-svc-session-id') || agentSession(headers);
}

/** From its header. */
export function parseWorkloadType(headers: Headers): HashedText | undefined {
  return hashed(value(headers, 'x-svc-workload-type'));
}

const LABEL_PREFIX = 'labels.';

/** Those of the key come first, then those of the request, those that its policy maps, and those of its agent; an earlier one stays. */
function parseLabels(
  headers: Headers,
  locked: Readonly<Record<string, string>> = {},
  mapped = NOTHING_MAPPED,
): Record<string, string> {
  const labels = new Map(Object.entries(locked));
  for (const pair of value(headers, 'x-svc-labels')?.split(',') ?? []) {
    const at = pair.indexOf('=');
    const key = pair.slice(0, Math.max(at, 0)).trim();
    if (key === '' || key.length > MAX_LABEL_KEY || Object.hasOwn(locked, key)) continue;
    if (!labels.has(key) && labels.size >= MAX_LABELS) continue;
    labels.set(key, cut(pair.slice(at + 1).trim()) ?? '');
  }
  for (const [attribution, text] of mapped) {
    if (!attribution.startsWith(LABEL_PREFIX)) continue;
    const key = attribution.slice(LABEL_PREFIX.length);
    if (!labels.has(key) && labels.size < MAX_LABELS) labels.set(key, cut(text) ?? '');
  }
  if (agentSession(headers) !== undefined) addAgentLabels(labels, headers);
  return Object.fromEntries(labels);
}

function addAgentLabels(labels: Map<string, string>, headers: Headers): void {
  for (const [label, name] of AGENT_LABELS) {
    const text = cut(value(headers, name));
    if (text !== undefined && labels.size < MAX_LABELS && !labels.has(label)) labels.set(label, text);
  }
}

/** The key of a workload type in evidence: short, and of the same length for any name. */
export function workloadTypeKey(workloadType: HashedText | undefined): string {
  return workloadType ? Buffer.from(workloadType.sha256.subarray(0, 8)).toString('hex') : '';
}

/** Attribution with one value, by its name such as `user` or `labels.tier`, as a request has it that says so. */
export function attributionWith(name: string, text: string): Attribution {
  const trimmed = text.trim();
  if (name.startsWith('labels.')) return { labels: { [name.slice('labels.'.length)]: cut(trimmed) ?? '' } };
  const said = name === 'session' ? hashed(trimmed) : cut(trimmed);
  return { labels: {}, ...(said !== undefined && { [name]: said }) };
}

function hashed(text: string | undefined): HashedText | undefined {
  if (!text) return undefined;
  return { text: cut(text) ?? '', sha256: createHash('sha256').update(text).digest() };
}

function value(headers: Headers, name: string): string | undefined {
  const raw = headers[name];
  return raw === undefined ? undefined : utf8(Array.isArray(raw) ? raw.join(',') : raw).trim();
}

/** Node decodes header bytes as Latin-1. Decodes valid UTF-8 as UTF-8. */
function utf8(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range is that of ASCII.
  if (/^[\x00-\x7f]*$/.test(text)) return text;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'latin1'));
  } catch {
    return text;
  }
}

/** Truncates by code points, so that no surrogate pair is split. Undefined for an empty value. */
function cut(text: string | undefined): string | undefined {
  if (!text) return undefined;
  return text.length <= MAX_VALUE ? text : Array.from(text).slice(0, MAX_VALUE).join('');
}

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function present<T extends object>(values: T): Present<T> {
  return Object.fromEntries(Object.entries(values).filter(([, item]) => item !== undefined)) as Present<T>;
}
