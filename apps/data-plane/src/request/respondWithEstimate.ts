import { writeCount } from '@weighbridge/dialects';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import type { GenerationPlan } from '../attempt/plan.ts';
import { headerText } from '../attempt/responseHeaders.ts';
import { textOfRequest } from '../formats/requestText.ts';
import type { CountTokens } from '../formats/tokenCounter.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';

interface CountedRequest {
  readonly id: string;
  readonly receivedAt: number;
  readonly observed: RequestObservation;
}

/**
 * Answers how many tokens a request has, where the model's vendor does not count them: as usage is counted that a vendor did not
 * report. Images and files count nothing.
 */
export async function respondWithEstimate(
  { countTokens }: { readonly countTokens: CountTokens },
  { id, receivedAt, observed }: CountedRequest,
  { operation, generation, targets }: GenerationPlan,
  client: ClientConnection,
): Promise<void> {
  const { text, framingTokens } = textOfRequest(generation.body.toBuffer());
  const tokens = (await countTokens(text)) + framingTokens;
  const { response, headers } = client;
  client.commit();
  if (client.hasDisconnected || response.destroyed) return;
  const body = Buffer.from(writeCount(operation.format ?? 'messages', tokens));
  observed.outcome = 'success';
  addRequestId(headers, operation.dialect, id);
  headers.set('content-type', 'application/json; charset=utf-8');
  headers.set('content-length', String(body.length));
  headers.set('x-svc-attempts', '0');
  headers.set('x-svc-cost-micro-usd', '0');
  headers.set('x-svc-estimated', 'true');
  headers.set('x-svc-model', headerText(targets[0].model.id));
  headers.set('x-svc-overhead-ms', (performance.now() - receivedAt).toFixed(3));
  response.writeHead(200, headers.list);
  response.end(body);
}
