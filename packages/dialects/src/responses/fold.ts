import type { AnswerContext } from '../ir/answer.ts';
import type { FoldedAnswer } from '../ir/fold.ts';
import { writeAnnotation } from './annotations.ts';
import { writeItem, writeResponse } from './writeItems.ts';

/** The JSON answer of responses. */
export function foldResponses({ blocks, citations, finish }: FoldedAnswer, context: AnswerContext): object {
  const output = blocks.map(({ open, text, opaque, citations: cited }, index) =>
    writeItem({ open, text, opaque, annotations: cited.map(writeAnnotation) }, index, 'completed', context),
  );
  const natives = citations.map(({ citation }) => citation.native);
  return writeResponse(context, output, { finish, natives });
}
