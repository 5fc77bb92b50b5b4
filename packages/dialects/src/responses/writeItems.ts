import { cachedInputTokens, NO_TOKENS, totalOutputTokens, uncachedInputTokens } from '@weighbridge/domain';
import { nativeReason } from '../conversation/nativeReason.ts';
import type { AnswerContext } from '../ir/answer.ts';
import type { NativeCitation } from '../ir/citation.ts';
import type { FinishEvent, OpenEvent, SearchEvent, StopReason, VendorError } from '../ir/event.ts';
import type { Opaque, OwnForm } from '../ir/request.ts';
import { argumentsObject } from '../json/toolArguments.ts';
import { parseJson } from '../json/writeJson.ts';
import { bareName } from '../tools/namespaces.ts';
import type { Annotation } from './annotations.ts';

type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** What an item has so far. */
interface ItemContent {
  readonly open: OpenEvent;
  readonly text: string;
  readonly opaque: Opaque | undefined;
  readonly annotations: readonly Annotation[];
}

/** An output item; while it streams, with what it has so far. */
export function writeItem(
  { open, text, opaque, annotations }: ItemContent,
  index: number,
  status: ItemStatus,
  context: AnswerContext,
): object {
  const id = itemId(open, index, context);
  if (open.block === 'call') {
    const ownForm = context.ownForms.get(open.name);
    if (ownForm) return { id, status, call_id: open.id, ...OWN_FORMS[ownForm](text) };
    const namespace = context.namespaces.get(open.name);
    const name = bareName(namespace, open.name);
    const named =
      namespace === undefined ? { call_id: open.id, name } : { call_id: open.id, name, namespace };
    if (open.form === 'text') return { id, type: 'custom_tool_call', status, ...named, input: text };
    return { id, type: 'function_call', status, ...named, arguments: text };
  }
  if (open.block === 'reasoning') {
    const summary = text === '' ? [] : [{ type: 'summary_text', text }];
    return opaque
      ? { id, type: 'reasoning', summary, encrypted_content: context.seal(opaque) }
      : { id, type: 'reasoning', summary };
  }
  const content = status === 'in_progress' ? [] : [writeContentPart(open, text, annotations)];
  return { id, type: 'message', status, role: 'assistant', content };
}

/** A search that the vendor ran; the caller need not send it back. */
export function writeSearch(
  { query }: SearchEvent,
  index: number,
  status: ItemStatus,
  { id }: AnswerContext,
): { readonly id: string } {
  const action = { type: 'search', query };
  return { id: `ws_${id}_${index}`, ...{ type: 'web_search_call', status, action } };
}

/** Calls of tools with a form of their own, by what the model wrote. */
const OWN_FORMS: Readonly<Record<OwnForm, (text: string) => object>> = {
  local_shell: (text) => {
    const action = { type: 'exec', command: ['bash', '-lc', text], env: {} };
    return { type: 'local_shell_call', action };
  },
  tool_search: (text) => {
    const called = parseJson(argumentsObject(text).json);
    return { type: 'tool_search_call', execution: 'client', arguments: called };
  },
};

const ID_PREFIXES: Readonly<Record<OpenEvent['block'], string>> = {
  text: 'msg',
  refusal: 'msg',
  reasoning: 'rs',
  call: 'fc',
};
const OWN_PREFIXES: Readonly<Record<OwnForm, string>> = { local_shell: 'lsh', tool_search: 'tsc' };

export function itemId(open: OpenEvent, index: number, { id, ownForms }: AnswerContext): string {
  const ownForm = open.block === 'call' ? ownForms.get(open.name) : undefined;
  if (ownForm) return `${OWN_PREFIXES[ownForm]}_${id}_${index}`;
  const prefix = open.block === 'call' && open.form === 'text' ? 'ctc' : ID_PREFIXES[open.block];
  return `${prefix}_${id}_${index}`;
}

export function writeContentPart(
  { block }: OpenEvent,
  text: string,
  annotations: readonly Annotation[],
): object {
  return block === 'refusal'
    ? { type: 'refusal', refusal: text }
    : { type: 'output_text', text, annotations, logprobs: [] };
}

const INCOMPLETE: Partial<Record<StopReason, string>> = {
  length: 'max_output_tokens',
  window: 'max_output_tokens',
  filter: 'content_filter',
};

/** How a response ended: its status, and why it is incomplete. */
export function endOf(finish: FinishEvent): {
  readonly status: 'completed' | 'incomplete';
  readonly reason: string | undefined;
} {
  const reason = INCOMPLETE[finish.stop];
  return { status: reason === undefined ? 'completed' : 'incomplete', reason };
}

type Natives = readonly NativeCitation[];

/** A response; `output` may be written in any form. */
export function writeResponse(
  context: AnswerContext,
  output: readonly unknown[],
  ended: {
    readonly finish?: FinishEvent | undefined;
    readonly error?: VendorError;
    readonly natives?: Natives;
  } = {},
): object {
  const { finish, error, natives = [] } = ended;
  const end = finish && endOf(finish);
  const failed = error
    ? { code: error.code === '' ? 'server_error' : error.code, message: error.message }
    : null;
  return {
    id: `resp_${context.id}`,
    object: 'response',
    created_at: context.created,
    status: error ? 'failed' : (end?.status ?? 'in_progress'),
    error: failed,
    ...(finish && { native_finish_reason: nativeReason(finish) }),
    ...(natives.length > 0 && { native_citations: natives }),
    incomplete_details: end?.reason === undefined ? null : { reason: end.reason },
    model: context.model,
    output,
    ...context.repeated,
    previous_response_id: context.previousId ?? null,
    store: context.isStored,
    usage: finish ? writeUsage(context, finish) : null,
  };
}

function writeUsage({ usage }: AnswerContext, { reasoningTokens }: FinishEvent): object {
  const tokens = usage() ?? NO_TOKENS;
  const cached = cachedInputTokens(tokens);
  const written = tokens.cacheWriteTokens + tokens.cacheWrite1hTokens;
  const input = uncachedInputTokens(tokens) + cached + written;
  const output = totalOutputTokens(tokens);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoningTokens ?? 0 },
    total_tokens: input + output,
  };
}
