import { nativeReason } from '../conversation/nativeReason.ts';
import type { AnswerContext } from '../ir/answer.ts';
import type { FoldedAnswer } from '../ir/fold.ts';
import { joinEnvelopes } from '../wire/seal.ts';
import { callPart, geminiReason, geminiUsage, groundingMembers, signedPart } from './writeStream.ts';

/** The JSON answer of `generateContent`. */
export function foldGemini(answer: FoldedAnswer, context: AnswerContext): object {
  const { blocks, citations, searches, finish } = answer;
  const parts: object[] = [];
  let envelopes: string[] = [];
  for (const { open, text, opaque } of blocks) {
    if (opaque) envelopes.push(context.seal(opaque, text));
    if (open.block === 'call') {
      parts.push(signedPart(callPart(open, text), joinEnvelopes(envelopes)));
      envelopes = [];
    } else if (text !== '') parts.push(open.block === 'reasoning' ? { text, thought: true } : { text });
  }
  if (envelopes.length > 0) parts.push(signedPart({ text: '' }, joinEnvelopes(envelopes)));
  const grounding = groundingMembers(
    citations,
    searches.map(({ search }) => search.query),
  );
  const ended = finish && { finishReason: geminiReason(finish), finishMessage: nativeReason(finish) };
  return {
    candidates: [{ content: { role: 'model', parts }, ...ended, ...grounding, index: 0 }],
    ...(finish && { usageMetadata: geminiUsage(context, finish) }),
    modelVersion: context.model,
    responseId: context.id,
  };
}
