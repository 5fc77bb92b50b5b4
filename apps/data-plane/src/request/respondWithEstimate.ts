import { setImmediate as endOfTurn } from 'node:timers/promises';
import { writeCount } from '@weighbridge/dialects';
import type { ResolvedKey } from '@weighbridge/state';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import { assertMaySend, type GenerationPlan } from '../attempt/plan.ts';
import { headerText } from '../attempt/responseHeaders.ts';
import { textOfRequest } from '../formats/requestText.ts';
import type { CountTokens } from '../formats/tokenCounter.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import { notTranslatable } from '../translation/notTranslatable.ts';

interface CountedRequest {
  readonly id: string;
  readonly receivedAt: number;
  readonly key: Pick<ResolvedKey, 'principalId'>;
  readonly observed: RequestObservation;
}

/**
 * Answers how many tokens a request has, where the model's vendor does not count them: as usage is counted that a vendor did not
 * report. Images and files count nothing.
 */
export async function respondWithEstimate(
  { countTokens }: { readonly countTokens: CountTokens },
  { id, receivedAt, key, observed }: CountedRequest,
  plan: GenerationPlan,
  client: ClientConnection,
): Promise<void> {
  const { operation, generation, targets } = plan;
  assertMaySend(plan);
  assertWhole(plan);
  // The text is held beside the body.
  const { length } = generation.body;
  client.memory.takeBody(length, 2 * length, key.principalId);
  const body = generation.body.toBuffer();
  // The body was just gone over to be admitted.
  await endOfTurn();
  const { text, characters, framingTokens } = textOfRequest(body);
  const tokens = (await countTokens(text, characters)) + framingTokens;
  const { response, headers } = client;
  client.commit();
  if (client.hasDisconnected || response.destroyed) return;
  const answer = Buffer.from(writeCount(operation.format ?? 'messages', tokens));
  observed.outcome = 'success';
  addRequestId(headers, operation.dialect, id);
  headers.set('content-type', 'application/json; charset=utf-8');
  headers.set('content-length', String(answer.length));
  headers.set('x-svc-attempts', '0');
  headers.set('x-svc-cost-micro-usd', '0');
  headers.set('x-svc-estimated', 'true');
  headers.set('x-svc-model', headerText(targets[0].model.id));
  headers.set('x-svc-overhead-ms', (performance.now() - receivedAt).toFixed(3));
  response.writeHead(200, headers.list);
  response.end(answer);
}

/** Throws a 400 if a part of the request is where only another vendor can count it. */
function assertWhole({ generation, targets }: GenerationPlan): void {
  if (generation.previousResponseId === undefined) return;
  const reason = 'only the vendor that stores it can count it';
  const loss = { path: 'previous_response_id', verdict: 'refused' as const, reason, count: 1 };
  throw notTranslatable(targets[0].model.id, [loss], 'lenient');
}
