import { StreamReader } from '../formats/streamReader.ts';
import { upstreamError } from '../upstream/upstreamErrors.ts';
import { sendFailure } from './errorResponse.ts';
import { OwnershipHold } from './ownershipHold.ts';
import { contentTypeOf, failedRequest, isCacheable, outcomeOf, type Relay } from './relay.ts';

const NOTHING = Buffer.alloc(0);

/** Passes a stream of events on as it comes. */
export async function relayStream(relay: Relay): Promise<void> {
  const { attempt, response, client, headers, plan } = relay;
  const { hideUsage } = plan;
  const format = plan.operation.responseFormat;
  const contentEncoding = response.headers['content-encoding'];
  const reader = new StreamReader({
    format,
    hideUsage,
    contentEncoding,
    memory: client.memory,
    onEvent: relay.capture?.add,
  });
  if (reader.emitsDecoded) headers.delete('content-encoding');
  let firstByteAt: number | undefined;
  let failure: unknown;
  const hold = relay.saveOwner && new OwnershipHold(reader, relay.saveOwner);
  const write = (bytes: Buffer): Promise<void> | undefined =>
    hold ? hold.write(bytes, client) : client.write(bytes);
  if (!client.hasDisconnected) {
    client.response.writeHead(response.status, headers.list);
    client.response.flushHeaders();
  }
  try {
    await response.body.forEachChunk((chunk) => {
      firstByteAt ??= performance.now();
      const passed = reader.push(chunk);
      return passed instanceof Promise ? passed.then(write) : write(passed);
    });
    await write(await reader.end());
    await client.write(hold?.rest() ?? NOTHING);
  } catch (error) {
    failure = error;
    response.body.destroy();
  }

  const outcome = outcomeOf(relay, failure, reader.facts.failed);
  await attempt.settle({ outcome, facts: reader.facts, firstByteAt, output: () => reader.output(format) });
  const { emitsPlainText } = reader;
  reader.close();
  if (client.hasDisconnected) return;
  if (failure) {
    const error = upstreamError(failure, attempt.prepared.connector.provider);
    sendFailure(failedRequest(relay), error, { emitsPlainText });
  } else client.response.end();
  if (isCacheable(relay, outcome)) relay.capture?.endStream(contentTypeOf(response) ?? 'text/event-stream');
}
