import { describe, expect, it } from 'vitest';
import { startInferenceApp } from '../../test/inferenceApp.ts';
import { useVendor } from '../../test/useProxy.ts';

const vendor = useVendor();

describe('headers', () => {
  it('go to the vendor but for those of this service, the caller and the connection', async () => {
    const sent = {
      'X-Svc-User': 'ada',
      'x-svc-unlisted': '1',
      'x-api-key': 'k',
      'api-key': 'k',
      'x-goog-api-key': 'k',
      cookie: 'c=1',
      'openai-organization': 'org',
      'openai-project': 'proj',
      forwarded: 'for=1.2.3.4',
      'x-forwarded-for': '1.2.3.4',
      'x-real-ip': '1.2.3.4',
      'openai-beta': 'kept',
      'x-custom': 'kept',
    };
    const app = await startInferenceApp(vendor.url);
    await (await app.ask({}, sent)).text();
    const received = vendor.requests[0]?.headers ?? {};
    expect(received).toMatchObject({
      'openai-beta': 'kept',
      'x-custom': 'kept',
      'content-type': 'application/json',
    });
    const kept = Object.keys(sent).filter((name) => name.toLowerCase() in received);
    expect(kept).toEqual(['openai-beta', 'x-custom']);
    expect(received).not.toHaveProperty('authorization');
  });
});
