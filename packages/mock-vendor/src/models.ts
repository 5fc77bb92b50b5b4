import type { Exchange } from './exchange.ts';

/** `GET /v1/models`. Any name works as a model; `echo` is the one to find. */
export async function models({ reply }: Exchange): Promise<void> {
  const echo = { id: 'echo', object: 'model', created: 1_735_689_600, owned_by: 'mock-vendor' };
  await reply.json(200, { object: 'list', data: [echo] });
}
