import type { AnswerOptions } from '@weighbridge/dialects';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { AttemptTranslation } from './requestTranslation.ts';
import { STORED_PREFIX } from './responseStore.ts';

/** What an answer is translated by. Its id is new, as the vendor's would be of no use elsewhere. */
export function answerOptions(
  { answer, scope, account, model, isStored, previousId }: AttemptTranslation,
  requestId: string,
  facts: () => ResponseFacts,
): AnswerOptions {
  return {
    plan: answer,
    scope,
    account,
    model,
    id: requestId.replace(/^req_/, isStored ? STORED_PREFIX : ''),
    isStored,
    previousId,
    created: Math.floor(Date.now() / 1_000),
    usage: () => {
      const { usage, partialUsage } = facts();
      return usage ?? partialUsage;
    },
  };
}
