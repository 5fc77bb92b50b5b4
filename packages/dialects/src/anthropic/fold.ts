import { type AnswerContext, UNSIGNED } from '../ir/answer.ts';
import type { FoldedAnswer, FoldedBlock } from '../ir/fold.ts';
import { argumentsObject } from '../json/toolArguments.ts';
import { raw } from '../json/writeJson.ts';
import { writeCitation } from './citations.ts';
import { emptyBlock, messagesEnvelope } from './writeStream.ts';

/** The JSON answer of messages. */
export function foldMessages({ blocks, finish }: FoldedAnswer, context: AnswerContext): object {
  const content = blocks
    .filter((block, at) => !isLast(block, at, blocks))
    .map((block) => foldBlock(block, context));
  const natives = blocks.flatMap(({ citations }) => citations.map(({ citation }) => citation.native));
  return { ...messagesEnvelope(context, finish, natives), content };
}

/** What was signed after the text, with nothing that follows: a stream drops it too. */
function isLast({ open, text }: FoldedBlock, at: number, blocks: readonly FoldedBlock[]): boolean {
  if (open.block !== 'reasoning' || text !== '' || at !== blocks.length - 1) return false;
  return blocks[at - 1]?.open.block === 'text';
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
