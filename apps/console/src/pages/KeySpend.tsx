import { api } from '../api/client.ts';
import { Badge, LimitBar, Money, Name, Time } from '../ui/bits.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded, Pairs } from '../ui/Page.tsx';

/** What was spent of the budget that governs a key, and what is left. */
export function KeySpend({
  of: { id, name },
  onClose,
}: {
  of: { readonly id: string; readonly name: string };
  onClose: () => void;
}) {
  const query = api.useQuery('get', '/api/v1/keys/{key_id}/usage', { params: { path: { key_id: id } } });
  return (
    <Modal title={`Spend under the budget of ${name}`} onClose={onClose}>
      <Loaded query={query}>
        {({ bucket_spent_micro_usd: spent, limit_micro_usd: limit, ...usage }) => (
          <Pairs
            of={[
              [
                'Spent',
                <span key="spent">
                  <Money micro={spent} /> {usage.pooled && <Badge>by all keys that share the budget</Badge>}
                </span>,
              ],
              [
                'Limit',
                limit === null ? (
                  'none'
                ) : (
                  <span key="limit">
                    <Money micro={limit} />
                    <LimitBar spent={spent} limit={limit} label="Spent of the budget" />
                  </span>
                ),
              ],
              [
                'Left before a request is refused',
                usage.headroom_micro_usd === null ? (
                  'no limit'
                ) : (
                  <Money key="left" micro={usage.headroom_micro_usd} />
                ),
              ],
              ...(usage.override
                ? [['Override', <Name key="override" text={usage.override.reason} />] as const]
                : []),
              ['Since', <Time key="since" at={usage.window_start} />],
              ['Resets', usage.reset ? <Time key="reset" at={usage.reset} /> : 'never'],
              ['As of', <Time key="as-of" at={usage.bucket_as_of} />],
            ]}
          />
        )}
      </Loaded>
    </Modal>
  );
}
