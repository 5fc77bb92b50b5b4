import type { AnswerContext } from '../ir/answer.ts';
import { type FoldedAnswer, inOrder } from '../ir/fold.ts';
import { writeAnnotation } from './annotations.ts';
import { writeItem, writeResponse, writeSearch } from './writeItems.ts';

/** The JSON answer of responses. */
export function foldResponses(answer: FoldedAnswer, context: AnswerContext): object {
  const { citations, finish } = answer;
  const output = inOrder(answer).map((item, index) => {
    if ('query' in item) return writeSearch(item, index, 'completed', context);
    const { open, text, opaque, citations: cited } = item;
    const annotations = cited.map(writeAnnotation);
    return writeItem({ open, text, opaque, annotations }, index, 'completed', context);
  });
  const natives = citations.map(({ citation }) => citation.native);
  return writeResponse(context, output, { finish, natives });
}
