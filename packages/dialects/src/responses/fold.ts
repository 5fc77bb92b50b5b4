import type { AnswerContext } from '../ir/answer.ts';
import type { FoldedAnswer } from '../ir/fold.ts';
import { writeItem, writeResponse } from './writeItems.ts';

/** The JSON answer of responses. */
export function foldResponses({ blocks, finish }: FoldedAnswer, context: AnswerContext): object {
  const output = blocks.map(({ open, text, opaque }, index) =>
    writeItem(open, index, 'completed', text, opaque, context),
  );
  return writeResponse(context, output, finish);
}
