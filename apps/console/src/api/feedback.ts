import { readApiError } from '@weighbridge/client';
import { playgroundKey } from './playground.ts';

/** Scores the response to one of one's own requests. */
export async function giveFeedback(feedback: {
  readonly request_id: string;
  /** From 0 to 1. */
  readonly score: number;
  readonly comment?: string;
}): Promise<void> {
  const response = await fetch('/v1/feedback', {
    method: 'POST',
    credentials: 'omit',
    headers: { authorization: `Bearer ${await playgroundKey()}`, 'content-type': 'application/json' },
    body: JSON.stringify(feedback),
  });
  if (!response.ok) throw await readApiError(response);
}
