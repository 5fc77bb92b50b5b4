import { useNavigate } from '@tanstack/react-router';
import type { components } from '@weighbridge/client';
import { createPolicy, deletePolicy, getPolicy, updatePolicy } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, LimitBar, Money, Name, Since } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Filters } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded, Page } from '../ui/Page.tsx';
import { RowActions } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { CACHE_FIELDS, type ShownFields } from '../ui/specs.ts';
import { List, Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';
import { budgetText } from './PolicyName.tsx';

type Policy = components['schemas']['Policy'];
type Counter = components['schemas']['PolicyCounter'];

export function Policies() {
  const [search] = useSearch();
  const { dialog, open, close, create, edit, remove } = useResource(POLICIES);
  const mayWrite = isOperator(useWhoami());
  const navigate = useNavigate();
  const query = api.useQuery('get', '/api/v1/policies', {
    params: { query: given(search, ['name_contains', 'page_token']) },
  });
  const names = new Map(query.data?.data.map(({ id, name }) => [id, name]));
  const actions = (policy: Policy) => [
    { label: 'Spend', run: () => open(<Counters policy={policy} onClose={close} />) },
    {
      label: 'Limits',
      run: () => void navigate({ to: `/policies/${encodeURIComponent(policy.id)}` as string }),
    },
    ...(mayWrite
      ? [
          { label: 'Edit', run: () => edit(policy) },
          { label: 'Delete', danger: true, run: () => remove(policy) },
        ]
      : []),
  ];
  return (
    <Page
      title="Policies"
      lead="Budgets, rates and the models that keys may use."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => create()}>
            Create a policy
          </Button>
        )
      }
    >
      <Filters filters={[{ name: 'name_contains', label: 'Name contains' }]} />
      <List<Policy>
        query={query}
        caption="Policies"
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'Name',
            value: ({ name, default_for }) => (
              <>
                <Name text={name} /> {default_for && <Badge>default for {default_for}</Badge>}
              </>
            ),
            wrap: true,
          },
          {
            title: 'Budget',
            value: budgetText,
            end: true,
          },
          { title: 'Counted for each', value: ({ counter_scope }) => counter_scope, spare: true },
          { title: 'Rates', value: (policy) => rates(policy), wrap: true },
          {
            title: 'Models',
            value: ({ allowed_models }) => <Name text={allowed_models.join(', ') || 'all'} />,
            wrap: true,
          },
          {
            title: 'Parent',
            value: ({ parent_policy_id: above }) => above && <Name text={names.get(above) ?? above} />,
            wrap: true,
          },
          {
            title: 'Actions',
            value: (policy) => <RowActions of={policy.name} actions={actions(policy)} />,
            end: true,
          },
        ]}
        empty={<p>No policy matches.</p>}
      />
      {dialog}
    </Page>
  );
}

function rates({ requests_per_minute, tokens_per_minute, max_parallel }: Policy): string {
  const limits = [
    [requests_per_minute, 'requests a minute'],
    [tokens_per_minute, 'tokens a minute'],
    [max_parallel, 'in parallel'],
  ] as const;
  const given = limits.flatMap(([limit, of]) => (limit === null ? [] : [`${count(limit)} ${of}`]));
  return given.join(', ') || 'no limit';
}

const NO_LIMIT = 'Empty: no limit.';
const FIELDS: ShownFields<keyof components['schemas']['PolicyChanges']> = {
  name: {},
  limit_micro_usd: { label: 'Budget in USD', hint: NO_LIMIT },
  window: { label: 'For each', initial: 'month' },
  counter_scope: { label: 'Counted for each', initial: 'key' },
  enforcement: { initial: 'enforce' },
  budget_mode: { label: 'Mode', initial: 'balanced' },
  requests_per_minute: { label: 'Requests a minute', hint: NO_LIMIT },
  tokens_per_minute: { label: 'Tokens a minute', hint: NO_LIMIT },
  max_parallel: { label: 'Requests in parallel', hint: NO_LIMIT },
  queue_ms: { label: 'Wait for an account at its limit, in ms', initial: '0' },
  priority: { label: 'Priority of those that wait', initial: '0', hint: '0 to 9: a higher one goes first.' },
  parent_policy_id: {},
  default_for: { label: 'Default for keys of the kind' },
  profile_id: {},
  'on_exhausted.profile_id': {
    label: 'Once the budget is used up: profile',
    hint: 'Requests use it instead of being refused.',
  },
  'on_exhausted.policy_id': {
    label: 'Once the budget is used up: policy',
    hint: 'Governs those requests; they are charged to its budget.',
  },
  allowed_models: { hint: 'One pattern a line, such as openai/*. Empty: all.' },
  thresholds: { label: 'Alert at these percentages', hint: 'One a line, such as 80.' },
  self_service: { label: 'People may issue keys of this policy themselves' },
  ...CACHE_FIELDS,
  attribution_headers: null,
  user_from_body: { label: 'Bodies may name the user' },
  // They have a page of their own.
  limits: null,
};
export const POLICIES: Resource<Policy> = {
  noun: 'policy',
  create: createPolicy,
  read: getPolicy,
  update: updatePolicy,
  remove: deletePolicy,
  fields: FIELDS,
  removal: () => 'What was spent under it stays in the ledger. A policy that governs keys can’t be deleted.',
};

/** Who spent how much of a policy's budget in the present window. */
function Counters({ policy: { id, name }, onClose }: { policy: Policy; onClose: () => void }) {
  const query = api.useQuery('get', '/api/v1/policies/{policy_id}/counters', {
    params: { path: { policy_id: id }, query: { sort: '-spent', page_size: 50 } },
  });
  return (
    <Modal title={`Spend under ${name}`} onClose={onClose}>
      <Loaded query={query}>
        {({ data, window_start, reset, next_page_token }) => (
          <>
            <p>
              <Since start={window_start} reset={reset} />
              {next_page_token && ' The 50 that spent most.'}
            </p>
            <Table<Counter>
              caption={`Spend under ${name}`}
              rows={data}
              rowKey={({ principal_id, key_id }) => `${principal_id} ${key_id}`}
              columns={[
                {
                  title: 'Whose',
                  value: ({ key_name, principal_id }) => (
                    <Name text={key_name ?? principal_id ?? 'all keys together'} />
                  ),
                  wrap: true,
                },
                { title: 'Spent', value: (one) => <Money micro={one.spent_micro_usd} />, end: true },
                { title: 'Leased', value: (one) => <Money micro={one.leased_micro_usd} />, end: true },
                {
                  title: 'Left',
                  value: (one) =>
                    one.limit_micro_usd === null ? (
                      'no limit'
                    ) : (
                      <>
                        <Money micro={one.headroom_micro_usd} />
                        <LimitBar
                          spent={one.spent_micro_usd}
                          limit={one.limit_micro_usd}
                          label="Spent of the budget"
                        />
                      </>
                    ),
                  end: true,
                },
              ]}
              empty={<p>Nothing was spent in this window.</p>}
            />
          </>
        )}
      </Loaded>
    </Modal>
  );
}
