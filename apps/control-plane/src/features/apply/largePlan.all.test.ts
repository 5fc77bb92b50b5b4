import { expect, it } from 'vitest';
import { startTestApi } from '../../../test/testApi.ts';

it('checks a plan of thousands of changes', async () => {
  const api = await startTestApi();
  const calls = Array.from({ length: 3_000 }, (_, n) =>
    n % 3 === 0
      ? { method: 'POST', path: '/api/v1/policies', body: { name: `p${n}` }, creates: `{p${n}}` }
      : {
          method: 'PUT',
          path: `/api/v1/principals/person-${n}`,
          body: { policy_id: `{p${n - (n % 3)}}` },
        },
  );
  try {
    const { body } = await api.call('POST', '/apply', { body: { calls } });
    expect(body).toEqual({ checked: 3_000, errors: [] });
  } finally {
    await api.close();
  }
});
