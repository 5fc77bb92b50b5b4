import type { components } from '@weighbridge/client';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Name, Time } from '../ui/bits.tsx';
import { Loaded, Section } from '../ui/Page.tsx';
import { ConfirmModal, RowActions, useDialog } from '../ui/resources.tsx';
import { Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';
import { usd } from './prices.ts';

type Change = components['schemas']['FeedChange'];
type Decision = 'approve' | 'reject';

/** The feed of prices, and its changes that wait for someone’s decision. */
export function Feed() {
  const query = api.useQuery('get', '/api/v1/catalog/feed');
  return (
    <Section title="Feed of prices">
      <Loaded query={query}>
        {({ state, error, last_success_at, held_changes }) => (
          <>
            <p>
              <Badge tone={error ? 'bad' : 'plain'}>{state}</Badge> {error !== null && <Name text={error} />}{' '}
              {last_success_at !== null && (
                <>
                  Last read: <Time at={last_success_at} />.{' '}
                </>
              )}
              {held_changes === 0
                ? 'No change waits for a decision.'
                : `Changes that wait for a decision: ${count(held_changes)}.`}
            </p>
            {held_changes > 0 && <Held />}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function Held() {
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/catalog/feed/changes', {
    params: { query: { state: 'held', page_size: 100 } },
  });
  const decide = (change: Change, decision: Decision) => () =>
    open(<Decide change={change} decision={decision} onClose={close} />);
  return (
    <>
      <Loaded query={query}>
        {({ data }) => (
          <Table<Change>
            caption="Changes of prices that wait"
            rows={data}
            rowKey={({ id }) => id}
            columns={[
              { title: 'Model', value: ({ model }) => <Name text={model} />, wrap: true },
              {
                title: 'Held because',
                value: ({ held_because: why }) => <Name text={why ?? ''} />,
                wrap: true,
              },
              {
                title: 'Input',
                value: ({ price_before, price_after }) =>
                  `${price_before ? usd(price_before.input_price) : 'none'} → ${usd(price_after.input_price)}`,
              },
              {
                title: 'Output',
                value: ({ price_before, price_after }) =>
                  `${price_before ? usd(price_before.output_price) : 'none'} → ${usd(price_after.output_price)}`,
              },
              ...(mayWrite
                ? [
                    {
                      title: 'Actions',
                      value: (change: Change) => (
                        <RowActions
                          of={change.model}
                          actions={[
                            { label: 'Apply', run: decide(change, 'approve') },
                            { label: 'Reject', danger: true, run: decide(change, 'reject') },
                          ]}
                        />
                      ),
                      end: true,
                    },
                  ]
                : []),
            ]}
            empty={<p>No change waits.</p>}
          />
        )}
      </Loaded>
      {dialog}
    </>
  );
}

function Decide({
  change: { id, model },
  decision,
  onClose,
}: {
  change: Change;
  decision: Decision;
  onClose: () => void;
}) {
  const params = { path: { change_id: id } };
  const isApproval = decision === 'approve';
  return (
    <ConfirmModal
      title={`${isApproval ? 'Apply' : 'Reject'} the price of ${model}`}
      submit={isApproval ? 'Apply' : 'Reject'}
      danger={!isApproval}
      act={() =>
        isApproval
          ? client.POST('/api/v1/catalog/feed/changes/{change_id}/approve', { params })
          : client.POST('/api/v1/catalog/feed/changes/{change_id}/reject', { params })
      }
      onClose={onClose}
    >
      <p>
        {isApproval
          ? 'Requests cost the new price from now on.'
          : 'The present price stays, until the feed brings another one.'}
      </p>
    </ConfirmModal>
  );
}
