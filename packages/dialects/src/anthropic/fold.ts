import { type AnswerContext, UNSIGNED } from '../ir/answer.ts';
import type { FoldedAnswer, FoldedBlock } from '../ir/fold.ts';
import { argumentsObject } from '../json/toolArguments.ts';
import { raw } from '../json/writeJson.ts';
import { writeCitation } from './citations.ts';
import { emptyBlock, messagesEnvelope } from './writeStream.ts';

/** The JSON answer of messages. */
export function foldMessages({ blocks, finish }: FoldedAnswer, context: AnswerContext): object {
  const content = withoutLate(blocks).map((block) => foldBlock(block, context));
  const natives = blocks.flatMap(({ citations }) => citations.map(({ citation }) => citation.native));
  return { ...messagesEnvelope(context, finish, natives), content };
}

/** What was signed after the text, with nothing that follows: a stream drops it too. */
function withoutLate(blocks: readonly FoldedBlock[]): readonly FoldedBlock[] {
  const last = blocks.findLastIndex(({ open, text }) => open.block !== 'reasoning' || text !== '');
  return blocks[last]?.open.block === 'text' ? blocks.slice(0, last + 1) : blocks;
}

function foldBlock({ open, text, opaque, citations }: FoldedBlock, context: AnswerContext): object {
  const block = emptyBlock(open);
  if (open.block === 'call') return { ...block, input: raw(argumentsObject(text).json) };
  if (open.block === 'reasoning') {
    return { ...block, thinking: text, signature: context.seal(opaque ?? UNSIGNED) };
  }
  if (citations.length === 0) return { ...block, text };
  return { ...block, text, citations: citations.map(({ citation }) => writeCitation(citation)) };
}
