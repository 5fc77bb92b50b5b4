import type { Exchange } from '../http/exchange.ts';

/** `GET /v1/models`. Any name works as a model; only `echo` is listed. */
export async function models({ reply }: Exchange): Promise<void> {
  const echo = { id: 'echo', object: 'model', created: 1_735_689_600, owned_by: 'mock-vendor' };
  await reply.json(200, { object: 'list', data: [echo] });
}
