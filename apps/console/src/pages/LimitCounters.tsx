import type { components } from '@weighbridge/client';
import { createOverride, endOverride, getOverride } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, LimitBar, Money, Name, Since, Time } from '../ui/bits.tsx';
import { call, readerOf, useSpecs } from '../ui/dialogs.tsx';
import { Filters } from '../ui/fields.tsx';
import { Loaded, Section } from '../ui/Page.tsx';
import { ConfirmModal, CreateModal, RowActions, useDialog } from '../ui/resources.tsx';
import { type SortedColumn, SortedTable } from '../ui/SortedTable.tsx';
import { given, useSearch } from '../ui/search.ts';
import { Pager } from '../ui/Table.tsx';
import { visible } from '../ui/text.ts';

type Limit = components['schemas']['PolicyLimit'];
type Counter = components['schemas']['PolicyCounter'];
type Override = NonNullable<Counter['override']>;

/** The counters of a limit in its present window, such as each customer's: those that spent most first. */
export function LimitCounters({ policyId, limit }: { policyId: string; limit: Limit }) {
  const [search, setSearch] = useSearch();
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const sort = search.sort ?? '-spent';
  const asked = {
    ...given(search, ['limit_id', 'value', 'page_token']),
    sort: sort as '-spent',
    page_size: 50,
  };
  const query = api.useQuery('get', '/api/v1/policies/{policy_id}/counters', {
    params: { path: { policy_id: policyId }, query: asked },
  });
  const actions = (of: Counter) => {
    const { override } = of;
    if (override) {
      const end = () => open(<EndOverride override={override} of={whoseOf(of)} onClose={close} />);
      return [{ label: 'End override', danger: true, run: end }];
    }
    const give = (amount: string) => () =>
      open(<GiveOverride policyId={policyId} limit={limit} of={of} amount={amount} onClose={close} />);
    return [
      { label: 'Freeze', danger: true, run: give('0') },
      { label: 'Other limit', run: give('') },
    ];
  };
  const columns: SortedColumn<Counter>[] = [
    { title: 'Whose', value: (one) => <Name text={whoseOf(one)} />, wrap: true },
    { title: 'Spent', field: 'spent', value: (one) => <Money micro={one.spent_micro_usd} />, end: true },
    { title: 'Leased', field: 'leased', value: (one) => <Money micro={one.leased_micro_usd} />, end: true },
    { title: 'Left', value: (one) => <Left of={one} />, end: true },
    { title: 'Limit', value: (one) => <LimitOf of={one} />, end: true },
    { title: 'Last used', value: (one) => <Time at={one.last_used_at} />, spare: true },
    ...(mayWrite
      ? [
          {
            title: 'Actions',
            value: (one: Counter) => isNamed(one) && <RowActions of={whoseOf(one)} actions={actions(one)} />,
            end: true,
          },
        ]
      : []),
  ];
  return (
    <Section title={`Spend of ${visible(limit.name)}`}>
      <Filters filters={[{ name: 'value', label: 'Value' }]} />
      <Loaded query={query}>
        {({ data, window_start, reset, next_page_token }) => (
          <>
            <p>
              <Since start={window_start} reset={reset} />
            </p>
            <SortedTable<Counter>
              caption={`Spend of ${limit.name}`}
              rows={data}
              rowKey={(one) =>
                JSON.stringify([one.counter, one.value ?? one.value_sha256, one.key_id, one.principal_id])
              }
              columns={columns}
              sort={sort}
              onSort={(next) => setSearch({ sort: next })}
              empty={<p>Nothing was spent in this window.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
      {dialog}
    </Section>
  );
}

/** Whether an override can name it. */
function isNamed({ counter, value, key_id, principal_id }: Counter): boolean {
  return value !== null || key_id !== null || principal_id !== null || counter === 'policy';
}

function whoseOf({ counter, value, value_sha256, key_name, key_id, principal_id }: Counter): string {
  const owner = value ?? key_name ?? key_id ?? principal_id;
  if (owner !== null) return owner;
  if (value_sha256 !== null) return `SHA-256 ${value_sha256}`;
  return SHARED[counter] ?? counter;
}
const SHARED: Readonly<Record<string, string>> = {
  policy: 'all keys together',
  unknown: 'requests without it',
  others: 'all others',
};

function Left({
  of: { limit_micro_usd: limit, headroom_micro_usd: left, spent_micro_usd: spent },
}: {
  of: Counter;
}) {
  if (limit === null) return <>no limit</>;
  return (
    <>
      <Money micro={left} />
      <LimitBar spent={spent} limit={limit} label="Spent of the limit" />
    </>
  );
}

function LimitOf({ of: { limit_micro_usd: limit, override } }: { of: Counter }) {
  return (
    <>
      <Money micro={limit} />
      {override && (
        <>
          {' '}
          <Badge tone={limit === 0 ? 'bad' : 'warn'}>{limit === 0 ? 'frozen' : 'override'}</Badge>
          <small>
            until <Time at={override.ends_at} />: <Name text={override.reason} />
          </small>
        </>
      )}
    </>
  );
}

function GiveOverride({
  policyId,
  limit,
  of,
  amount,
  onClose,
}: {
  policyId: string;
  limit: Limit;
  of: Counter;
  amount: string;
  onClose: () => void;
}) {
  const specs = useSpecs(createOverride, {
    limit_micro_usd: { label: 'Limit in USD', initial: amount, hint: '0: no request passes.' },
    ends_at: { label: 'Ends', required: true, hint: 'At 00:00 UTC, within 366 days.' },
    reason: { required: true, hint: 'Shown to everyone who sees the budget.' },
    ...{
      policy_id: null,
      principal_id: null,
      key_id: null,
      limit_id: null,
      value: null,
      duration_seconds: null,
    },
  });
  const { value, key_id, principal_id } = of;
  const owner =
    value !== null ? { value } : key_id !== null ? { key_id } : principal_id !== null && { principal_id };
  const create = (values: object) =>
    call(createOverride, '', {}, { ...values, policy_id: policyId, limit_id: limit.id, ...owner });
  const title = `${amount === '0' ? 'Freeze' : 'Another limit for'} ${visible(whoseOf(of))}`;
  return <CreateModal title={title} submit="Save" specs={specs} create={create} onClose={onClose} />;
}

function EndOverride({ override, of, onClose }: { override: Override; of: string; onClose: () => void }) {
  return (
    <ConfirmModal
      title={`End the override of ${visible(of)}`}
      submit="End the override"
      danger
      id={override.id}
      read={readerOf(getOverride, override.id)}
      act={(header) => call(endOverride, override.id, header)}
      onClose={onClose}
    >
      <p>The limit of all others applies again, also to what is spent already.</p>
    </ConfirmModal>
  );
}
