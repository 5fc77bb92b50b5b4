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

/** Reads the ten `X-Svc-*` headers, and what coding agents say of their sessions. Malformed values are truncated or skipped: they never fail a request. */
export function parseAttribution(headers: Headers, locked: LockedAttribution = NOTHING_LOCKED): Attribution {
  // The common case.
  if (locked === NOTHING_LOCKED && !saysSomething(headers)) return NO_ATTRIBUTION;
  const plain = {
    user: locked.user ?? cut(value(headers, 'x-svc-user')),
    team: locked.team ?? cut(value(headers, 'x-svc-team')),
    project: locked.project ?? cut(value(headers, 'x-svc-project')),
    env: locked.env ?? cut(value(headers, 'x-svc-env')),
    namespace: cut(value(headers, 'x-svc-namespace')),
    workload: cut(value(headers, 'x-svc-workload')),
    pod: cut(value(headers, 'x-svc-pod')),
    session: hashed(sessionIdOf(headers)),
    workloadType: parseWorkloadType(headers),
  };
  return { ...present(plain), labels: parseLabels(headers, locked.labels) };
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

/** Those of the key come first, then those of the request, then those of its agent; an earlier one stays. */
function parseLabels(
  headers: Headers,
  locked: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const labels = new Map(Object.entries(locked));
  for (const pair of value(headers, 'x-svc-labels')?.split(',') ?? []) {
    const at = pair.indexOf('=');
    const key = pair.slice(0, Math.max(at, 0)).trim();
    if (key === '' || key.length > MAX_LABEL_KEY || Object.hasOwn(locked, key)) continue;
    if (!labels.has(key) && labels.size >= MAX_LABELS) continue;
    labels.set(key, cut(pair.slice(at + 1).trim()) ?? '');
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
