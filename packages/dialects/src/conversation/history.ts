import type { CallPart, Message, Part, ResultPart } from '../ir/request.ts';
import type { Losses } from '../loss/losses.ts';

/**
 * A conversation in which each call has its result in the message that follows it, as most vendors require, and in the order of the
 * calls, by which Gemini tells calls of one name apart.
 */
export function withPairedCalls(messages: readonly Message[], losses: Losses): readonly Message[] {
  const { results, areRepeated } = collectResults(messages, losses);
  const called = new Set<string>();
  let isInOrder = !areRepeated;
  for (let index = 0; index < messages.length; index++) {
    const calls = callsOf(messages[index]);
    if (calls.length === 0) continue;
    const answered = resultIds(messages[index + 1]);
    for (const [at, call] of calls.entries()) {
      if (called.has(call.id)) losses.add(call.path, 'refused', 'another call has the same id');
      called.add(call.id);
      if (!results.has(call.id)) losses.add(call.path, 'refused', 'the call has no result');
      else if (answered[at] !== call.id) isInOrder = false;
    }
  }
  for (const [id, { path }] of results) {
    if (!called.has(id)) losses.add(path, 'refused', 'the result has no call');
  }
  return isInOrder && resultsLead(messages) ? messages : reordered(messages, results);
}

interface Results {
  readonly results: ReadonlyMap<string, ResultPart>;
  readonly areRepeated: boolean;
}

/** Gemini CLI repeats each result of a session that it resumes: the same result counts once. */
function collectResults(messages: readonly Message[], losses: Losses): Results {
  const results = new Map<string, ResultPart>();
  let areRepeated = false;
  for (const { parts } of messages) {
    for (const part of parts) {
      if (part.kind !== 'result') continue;
      const first = results.get(part.id);
      if (first) {
        areRepeated = true;
        const isSame = contentOf(first) === contentOf(part);
        losses.add(part.path, isSame ? 'dropped' : 'refused', 'another result has the same id');
      } else results.set(part.id, part);
    }
  }
  return { results, areRepeated };
}

/** What a result says, wherever it is. */
function contentOf({ failed, parts }: ResultPart): string {
  return JSON.stringify([failed, parts], (name, value) => (name === 'path' ? undefined : value));
}

function callsOf(message: Message | undefined): CallPart[] {
  if (message?.role !== 'assistant') return [];
  return message.parts.filter((part) => part.kind === 'call');
}

function resultIds(message: Message | undefined): readonly string[] {
  if (!message || message.role === 'assistant') return [];
  return message.parts.flatMap((part) => (part.kind === 'result' ? [part.id] : []));
}

/** Whether results come before what else is in their message. */
function resultsLead(messages: readonly Message[]): boolean {
  return messages.every(({ parts }) => {
    let isOther = false;
    for (const { kind } of parts) {
      if (kind !== 'result') isOther = true;
      else if (isOther) return false;
    }
    return true;
  });
}

function reordered(messages: readonly Message[], results: ReadonlyMap<string, ResultPart>): Message[] {
  const ordered: Message[] = [];
  for (const message of messages) {
    const others = message.parts.filter(({ kind }) => kind !== 'result');
    const last = ordered.at(-1);
    const isAnswered = message.role === 'user' && last?.role === 'user' && isResultsOnly(last.parts);
    if (isAnswered && others.length > 0) {
      ordered[ordered.length - 1] = { role: 'user', parts: [...last.parts, ...others] };
    } else if (others.length > 0) ordered.push({ role: message.role, parts: others });
    const answers = callsOf(message).flatMap(({ id }) => results.get(id) ?? []);
    if (answers.length > 0) ordered.push({ role: 'user', parts: answers });
  }
  return ordered;
}

function isResultsOnly(parts: readonly Part[]): boolean {
  return parts.every(({ kind }) => kind === 'result');
}
