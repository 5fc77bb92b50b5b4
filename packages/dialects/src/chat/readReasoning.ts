import { OWNERS } from '../format.ts';
import type { Opaque, ReasoningPart } from '../ir/request.ts';
import { type Fields, fieldsOf } from '../loss/fields.ts';
import { readOpaque, readOpaques } from '../wire/seal.ts';
import type { CallWire, ReasoningDetail, ReasoningMembers } from './wire.ts';

/** The reasoning of an assistant's message, by where it was: a conversation has to repeat that. */
export interface MessageReasoning {
  readonly first: readonly ReasoningPart[];
  /** By the id of the call that it came before. */
  readonly ofCalls: ReadonlyMap<string, readonly ReasoningPart[]>;
}

interface Read {
  readonly callId: string;
  readonly part: ReasoningPart;
}

/** Reasoning of this service's own answers has details. What has none is text, which no vendor takes back. */
export function readReasoning(fields: Fields<ReasoningMembers>, calls: readonly unknown[]): MessageReasoning {
  const text = fields.text('reasoning_content') ?? fields.text('reasoning');
  const details = readDetails(fields);
  if (details.length === 0) {
    const path = fields.at('reasoning_content');
    return { first: text ? [{ kind: 'reasoning', text, path }] : [], ofCalls: new Map() };
  }
  const ids = new Set(calls.map((call) => (call as CallWire | null)?.id));
  const first: ReasoningPart[] = [];
  const ofCalls = new Map<string, ReasoningPart[]>();
  for (const { callId, part } of details) {
    if (callId !== '' && ids.has(callId)) ofCalls.set(callId, [...(ofCalls.get(callId) ?? []), part]);
    else first.push(part);
  }
  return { first, ofCalls };
}

function readDetails(fields: Fields<ReasoningMembers>): readonly Read[] {
  const list = fields.list('reasoning_details') ?? [];
  return list.flatMap((value, index): Read[] => {
    const path = `${fields.at('reasoning_details')}.${index}`;
    const detail = fieldsOf<ReasoningDetail>(value, path, fields.context);
    return detail ? [readDetail(detail)] : [];
  });
}

function readDetail(detail: Fields<ReasoningDetail>): Read {
  detail.text('type');
  detail.take('index');
  detail.take('format');
  const text = detail.text('text') ?? detail.text('summary') ?? '';
  const [signature, data] = [detail.text('signature'), detail.text('data')];
  const opaque = signature
    ? readOpaque(signature, OWNERS.messages, 'signature')
    : data
      ? readOpaque(data, OWNERS.messages, 'redacted')
      : undefined;
  const callId = detail.text('id') ?? '';
  detail.end();
  return { callId, part: { kind: 'reasoning', text, opaque, path: detail.path } };
}

/**
 * The signatures of a call, in the place that Google's own chat completions have for them: ours, or those of one of its models that
 * was reached so. What the details of its message have is not read twice.
 */
export function readSignatures(
  call: Fields<CallWire>,
  { first, ofCalls }: MessageReasoning,
): ReasoningPart[] {
  const extra = call.object<NonNullable<CallWire['extra_content']>>('extra_content');
  const google = extra?.object<{ thought_signature?: string }>('google');
  const value = google?.text('thought_signature');
  google?.end();
  extra?.end();
  if (!value) return [];
  const known = [...first, ...[...ofCalls.values()].flat()];
  const isKnown = (opaque: Opaque) => known.some((part) => part.opaque?.data === opaque.data);
  const path = `${call.path}.extra_content`;
  return readOpaques(value, OWNERS.gemini, 'thought').flatMap((opaque) =>
    isKnown(opaque) ? [] : [{ kind: 'reasoning', text: '', opaque, path }],
  );
}
