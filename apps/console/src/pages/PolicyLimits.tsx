import { useParams } from '@tanstack/react-router';
import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Name } from '../ui/bits.tsx';
import { Loaded, Page } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { RowActions, useDialog } from '../ui/resources.tsx';
import { useSearch } from '../ui/search.ts';
import { Table } from '../ui/Table.tsx';
import { count, money } from '../ui/text.ts';
import { LimitCounters } from './LimitCounters.tsx';
import { AddLimit, EditLimit, RemoveLimit } from './LimitDialogs.tsx';

type Limit = components['schemas']['PolicyLimit'];

/** The further limits of a policy; of one of them, who spent most. */
export function PolicyLimits() {
  const { policyId = '' } = useParams({ strict: false }) as { policyId?: string };
  const [search, setSearch] = useSearch();
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/policies/{policy_id}', {
    params: { path: { policy_id: policyId } },
  });
  const shown = query.data?.limits.find(({ id }) => id === search.limit_id);
  const actions = (limit: Limit) => [
    { label: 'Spend', run: () => setSearch({ limit_id: limit.id, value: undefined, sort: undefined }) },
    ...(mayWrite
      ? [
          { label: 'Edit', run: () => open(<EditLimit policyId={policyId} limit={limit} onClose={close} />) },
          {
            label: 'Delete',
            danger: true,
            run: () => open(<RemoveLimit policyId={policyId} limit={limit} onClose={close} />),
          },
        ]
      : []),
  ];
  return (
    <Page
      title={query.data ? `Limits of ${query.data.name}` : 'Limits'}
      lead="Further limits beside the budget of the policy. A request counts in each that matches it."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => open(<AddLimit policyId={policyId} onClose={close} />)}>
            Add a limit
          </Button>
        )
      }
    >
      <div className={styles.section}>
        <Loaded query={query}>
          {({ limits }) => (
            <Table<Limit>
              caption="Limits"
              rows={limits}
              rowKey={({ id, name }) => id ?? name}
              columns={[
                {
                  title: 'Name',
                  value: ({ name, enforcement }) => (
                    <>
                      <Name text={name} /> {enforcement !== 'enforce' && <Badge>{enforcement}</Badge>}
                    </>
                  ),
                  wrap: true,
                },
                { title: 'Budget', value: amountOf, end: true },
                {
                  title: 'Counted for each',
                  value: ({ counter_scope }) => <Name text={counter_scope ?? 'principal'} />,
                },
                {
                  title: 'Models',
                  value: ({ models }) => <Name text={models?.join(', ') || 'all'} />,
                  wrap: true,
                },
                {
                  title: 'If',
                  value: ({ when }) => <Name text={conditions(when)} />,
                  wrap: true,
                  spare: true,
                },
                {
                  title: 'Actions',
                  value: (limit) => <RowActions of={limit.name} actions={actions(limit)} />,
                  end: true,
                },
              ]}
              empty={<p>No further limit: the budget of the policy is the only one.</p>}
            />
          )}
        </Loaded>
      </div>
      {shown && <LimitCounters policyId={policyId} limit={shown} />}
      {dialog}
    </Page>
  );
}

function amountOf({ limit_micro_usd = null, limit_requests, limit_tokens, window = 'month' }: Limit): string {
  const amounts = [
    ...(limit_micro_usd === null ? [] : [money(limit_micro_usd)]),
    ...(limit_requests == null ? [] : [`${count(limit_requests)} requests`]),
    ...(limit_tokens == null ? [] : [`${count(limit_tokens)} tokens`]),
  ].join(', ');
  if (typeof window !== 'string') return `${amounts} in ${window.every} from first use`;
  return window === 'none' ? amounts : `${amounts} a ${window}`;
}

function conditions(when: Limit['when'] = {}): string {
  return Object.entries(when)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ');
}
