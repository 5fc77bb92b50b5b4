import type { Service } from './recipe.ts';

const TIMEOUT_MS = 3_000;

/** A model to name instead of this one, if the key cannot reach it; undefined if it can, or that is not known. */
export async function modelInstead(service: Service, model: string): Promise<string | undefined> {
  const found = await get(service, `/v1/models/${encodeURIComponent(model)}`);
  if (found?.status !== 404) return undefined;
  const listed = await get(service, '/v1/models');
  const list = (await listed?.json().catch(() => undefined)) as { data?: { id: string }[] } | undefined;
  return list?.data?.map(({ id }) => id).find((id) => !/^router\/|embed/.test(id));
}

async function get({ url, key }: Service, path: string): Promise<Response | undefined> {
  const headers = { authorization: `Bearer ${key}` };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  // The address may be reachable only where the client runs.
  return await fetch(`${url}${path}`, { headers, signal }).catch(() => undefined);
}
