import { type AnswerContext, UNSIGNED } from '../ir/answer.ts';
import { type FoldedAnswer, type FoldedBlock, inOrder } from '../ir/fold.ts';
import { argumentsObject } from '../json/toolArguments.ts';
import { raw } from '../json/writeJson.ts';
import { writeCitation } from './citations.ts';
import { emptyBlock, messagesEnvelope, searchBlocks } from './writeStream.ts';

/** The JSON answer of messages. */
export function foldMessages(answer: FoldedAnswer, context: AnswerContext): object {
  const { blocks, finish } = answer;
  let searches = 0;
  const content = withoutLate(inOrder(answer)).flatMap((item) =>
    'query' in item ? searchBlocks(item, `${context.id}_${searches++}`) : foldBlock(item, context),
  );
  const natives = blocks.flatMap(({ citations }) => citations.map(({ citation }) => citation.native));
  return { ...messagesEnvelope(context, finish, natives), content };
}

type Item = ReturnType<typeof inOrder>[number];

/** What was signed after the text, with nothing that follows: a stream drops it too. */
function withoutLate(items: readonly Item[]): readonly Item[] {
  const last = items.findLastIndex(
    (item) => 'query' in item || item.open.block !== 'reasoning' || item.text !== '',
  );
  const item = items[last];
  const isText = item !== undefined && 'open' in item && item.open.block === 'text';
  return isText ? items.slice(0, last + 1) : items;
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
