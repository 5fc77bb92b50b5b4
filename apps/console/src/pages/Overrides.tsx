import type { components } from '@weighbridge/client';
import { createOverride, endOverride, getOverride, updateOverride } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Money, Name, Time } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Filters } from '../ui/fields.tsx';
import { Page } from '../ui/Page.tsx';
import { RowActions } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import type { ShownFields } from '../ui/specs.ts';
import { List } from '../ui/Table.tsx';
import { visible } from '../ui/text.ts';

type Override = components['schemas']['Override'];

const FILTERS = ['active', 'principal_id', 'page_token'] as const;
const YES_NO = [
  ['true', 'Yes'],
  ['false', 'No'],
] as const;

export function Overrides() {
  const [search] = useSearch();
  const { dialog, create, edit, remove: end } = useResource(OVERRIDES);
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/overrides', { params: { query: given(search, FILTERS) } });
  const actions = (of: Override) => [
    { label: 'Edit', run: () => edit(of) },
    { label: 'End', danger: true, run: () => end(of) },
  ];
  return (
    <Page
      title="Overrides"
      lead="A temporary limit for one counter of a policy. Newest first."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => create()}>
            Create an override
          </Button>
        )
      }
    >
      <Filters
        filters={[
          { name: 'active', label: 'Active', options: YES_NO },
          { name: 'principal_id', label: 'Principal' },
        ]}
      />
      <List<Override>
        query={query}
        caption="Overrides"
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'Budget',
            value: (one) => (
              <>
                <Name text={one.policy_name} />
                {one.limit_name !== null && (
                  <small>
                    <Name text={one.limit_name} />
                  </small>
                )}
                <small>
                  <Name text={whoseOf(one)} />
                </small>
              </>
            ),
            wrap: true,
          },
          { title: 'Limit', value: ({ limit_micro_usd: micro }) => <Money micro={micro} />, end: true },
          { title: 'State', value: (one) => <State of={one} /> },
          { title: 'Ends', value: ({ ends_at, ended_at }) => <Time at={ended_at ?? ends_at} /> },
          { title: 'Reason', value: ({ reason }) => <Name text={reason} />, wrap: true },
          { title: 'Given by', value: ({ created_by }) => <Name text={created_by} />, wrap: true },
          { title: 'Given', value: ({ created_at }) => <Time at={created_at} />, spare: true },
          ...(mayWrite
            ? [
                {
                  title: 'Actions',
                  value: (one: Override) =>
                    !hasEnded(one) && <RowActions of={whoseOf(one)} actions={actions(one)} />,
                  end: true,
                },
              ]
            : []),
        ]}
        empty={<p>No override: every counter has the limit of its policy.</p>}
      />
      {dialog}
    </Page>
  );
}

function whoseOf({ key_id, principal_id, value }: Override): string {
  return value ?? key_id ?? principal_id ?? 'all who share it';
}

const hasEnded = ({ ended_at, ends_at }: Override) => ended_at !== null || Date.parse(ends_at) <= Date.now();

function State({ of }: { of: Override }) {
  if (hasEnded(of)) return <Badge>ended</Badge>;
  if (of.active) return <Badge tone="good">active</Badge>;
  // The policy lost its limit, or counts otherwise now.
  return <Badge tone="warn">without effect</Badge>;
}

const FIELDS: ShownFields<keyof components['schemas']['NewOverride']> = {
  policy_id: {},
  principal_id: { hint: 'Whose budget, if the policy counts for each principal.' },
  key_id: { hint: 'Its id, if the policy counts for each key.' },
  limit_id: { label: 'Further limit', hint: 'Its id, if the budget is of one. Empty: the policy’s own.' },
  value: { hint: 'Whose budget, if that limit counts for each value, such as a customer.' },
  limit_micro_usd: {
    label: 'Limit in USD',
    required: true,
    hint: 'Replaces the policy’s limit, higher or lower.',
  },
  ends_at: { label: 'Ends', required: true, hint: 'At 00:00 UTC, within 366 days.' },
  reason: { required: true, hint: 'Shown to everyone who sees the budget.' },
  // The form has the day on which it ends.
  duration_seconds: null,
};
export const OVERRIDES: Resource<Override> = {
  noun: 'override',
  nameOf: (of) => `the override of ${whoseOf(of)}`,
  create: createOverride,
  read: getOverride,
  update: updateOverride,
  remove: endOverride,
  removeVerb: 'End',
  fields: FIELDS,
  removal: ({ policy_name }) =>
    `The limit of ${visible(policy_name)} applies again, also to what is spent already.`,
};
