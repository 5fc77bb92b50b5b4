import type { Json } from '../src/apply/desiredState.ts';
import type { SendPlan } from '../src/apply/sendPlan.ts';

/** Makes the calls of plans, one after the other, and fills in the ids of what they create, as the service does. */
export function fakePlans(call: (method: string, path: string, body?: unknown) => Promise<Json>): SendPlan {
  return async ({ calls, dry_run = false }) => {
    const ids = new Map<string, unknown>();
    const fill = (_name: string, value: unknown) =>
      typeof value === 'string' ? value.replace(/\{\d+\}/g, (one) => String(ids.get(one) ?? one)) : value;
    const results = [];
    for (const { method, creates, ...planned } of calls) {
      const { path, body } = JSON.parse(JSON.stringify(planned), fill) as { path: string; body?: unknown };
      const { id, key } = await call(method, path, body);
      if (creates !== undefined) ids.set(creates, id);
      results.push({
        ...(id !== undefined && { id: String(id) }),
        ...(key !== undefined && { key: String(key) }),
      });
    }
    return { dry_run, calls: calls.length, errors: [], results: dry_run ? [] : results };
  };
}
