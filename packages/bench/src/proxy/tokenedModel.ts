import { manage, type Service } from '../shared/service.ts';
import { MODEL } from './workload.ts';

/** The client of the connector. Its secret is the control plane's `BENCH_CLIENT_SECRET`. */
export const CLIENT_ID = 'bench';
const PROVIDER = 'tokened';

/** Adds an account at the same vendor that is called with access tokens, and its model at the same price; returns its id. */
export async function addTokenedModel({ controlPlane, vendor }: Service, tokenUrl: string): Promise<string> {
  const { usable, unusable_reason } = await manage(controlPlane, 'POST', '/api/v1/connectors', {
    name: PROVIDER,
    provider: PROVIDER,
    dialect: 'openai',
    base_url: `${vendor.url}/v1`,
    auth: {
      kind: 'oauth',
      token_url: tokenUrl,
      client_id: CLIENT_ID,
      client_secret: 'env:BENCH_CLIENT_SECRET',
    },
  });
  if (!usable) throw new Error(`the connector with access tokens is not usable: ${unusable_reason}`);
  const known = await manage(controlPlane, 'GET', `/api/v1/catalog/models/${MODEL}`);
  const { price } = known.price as { readonly price: object };
  const name = MODEL.slice(MODEL.indexOf('/') + 1);
  const { context_window, max_output_tokens } = known;
  const entry = { upstream_name: name, context_window, max_output_tokens, price };
  await manage(controlPlane, 'PUT', `/api/v1/catalog/models/${PROVIDER}/${name}`, entry);
  return `${PROVIDER}/${name}`;
}
