import { nativeReason } from '../conversation/nativeReason.ts';
import type { AnswerContext } from '../ir/answer.ts';
import type { FoldedAnswer, FoldedBlock } from '../ir/fold.ts';
import { writeChatAnnotation } from './annotations.ts';
import { SignedReasoning } from './signedReasoning.ts';
import { chatReason, chatUsage, writeCall } from './writeStream.ts';

/** The JSON answer of chat completions. */
export function foldChat({ blocks, citations, finish }: FoldedAnswer, context: AnswerContext): object {
  const { id, created, model } = context;
  const refusal = textOf(blocks, 'refusal');
  const reasoning = textOf(blocks, 'reasoning');
  const { calls, details } = foldCalls(blocks, context);
  const message = {
    role: 'assistant',
    content: textOf(blocks, 'text') ?? (calls.length > 0 || refusal !== null ? null : ''),
    refusal,
    ...(reasoning !== null && { reasoning_content: reasoning }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(citations.length > 0 && { annotations: citations.map(writeChatAnnotation) }),
  };
  const reason = finish ? chatReason(finish, refusal !== null) : 'stop';
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created,
    model,
    choices: [
      {
        index: 0,
        message,
        logprobs: null,
        finish_reason: reason,
        native_finish_reason: finish && nativeReason(finish),
        ...(citations.length > 0 && { native_citations: citations.map(({ citation }) => citation.native) }),
      },
    ],
    ...(finish && { usage: chatUsage(context, finish) }),
  };
}

/** Null if no block is of the kind. */
function textOf(blocks: readonly FoldedBlock[], kind: 'text' | 'refusal' | 'reasoning'): string | null {
  const texts = blocks.flatMap(({ open, text }) => (open.block === kind ? [text] : []));
  return texts.length > 0 ? texts.join('') : null;
}

/** The calls, and what has to come back of the reasoning beside them. */
function foldCalls(blocks: readonly FoldedBlock[], context: AnswerContext) {
  const signed = new SignedReasoning(context);
  const calls: object[] = [];
  for (const { open, text, opaque } of blocks) {
    if (opaque) signed.add(opaque, text);
    if (open.block === 'text') signed.text();
    if (open.block === 'call') calls.push(writeCall(open, text, signed.call(open.id)));
  }
  return { calls, details: signed.details };
}
