import type { components } from '@weighbridge/client';
import { usePolicyChoices } from '../api/choices.ts';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Money, Name, Time } from '../ui/bits.tsx';
import type { FieldSpec } from '../ui/fieldSpecs.ts';
import { Filters } from '../ui/fields.tsx';
import { Page } from '../ui/Page.tsx';
import { ConfirmModal, CreateModal, EditModal, RowActions, useDialog } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List } from '../ui/Table.tsx';

type Override = components['schemas']['Override'];
interface OverrideDialog {
  readonly of: Override;
  readonly onClose: () => void;
}

const FILTERS = ['active', 'principal_id', 'page_token'] as const;
const YES_NO = [
  ['true', 'Yes'],
  ['false', 'No'],
] as const;

export function Overrides() {
  const [search] = useSearch();
  const { dialog, open, close } = useDialog();
  const mayWrite = isOperator(useWhoami());
  const query = api.useQuery('get', '/api/v1/overrides', { params: { query: given(search, FILTERS) } });
  const actions = (of: Override) => [
    { label: 'Edit', run: () => open(<Edit of={of} onClose={close} />) },
    { label: 'End', danger: true, run: () => open(<End of={of} onClose={close} />) },
  ];
  return (
    <Page
      title="Overrides"
      lead="A temporary limit for one counter of a policy. Newest first."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => open(<Create onClose={close} />)}>
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

function whoseOf({ key_id, principal_id }: Override): string {
  return key_id ?? principal_id ?? 'all who share it';
}

const hasEnded = ({ ended_at, ends_at }: Override) => ended_at !== null || Date.parse(ends_at) <= Date.now();

function State({ of }: { of: Override }) {
  if (hasEnded(of)) return <Badge>ended</Badge>;
  if (of.active) return <Badge tone="good">active</Badge>;
  // The policy lost its limit, or counts otherwise now.
  return <Badge tone="warn">without effect</Badge>;
}

const CHANGEABLE: readonly FieldSpec[] = [
  {
    name: 'limit_micro_usd',
    label: 'Limit in USD',
    kind: 'usd',
    required: true,
    hint: 'Replaces the policy’s limit, higher or lower.',
  },
  { name: 'ends_at', label: 'Ends', kind: 'date', required: true, hint: 'At 00:00 UTC, within 366 days.' },
  {
    name: 'reason',
    label: 'Reason',
    kind: 'text',
    required: true,
    hint: 'Shown to everyone who sees the budget.',
  },
];

function Create({ onClose }: { onClose: () => void }) {
  const policies = usePolicyChoices();
  const specs: readonly FieldSpec[] | undefined = policies && [
    { name: 'policy_id', label: 'Policy', kind: 'choice', choices: policies.slice(1) },
    {
      name: 'principal_id',
      label: 'Principal',
      kind: 'text',
      hint: 'Whose budget, if the policy counts for each principal.',
    },
    { name: 'key_id', label: 'Key', kind: 'text', hint: 'Its id, if the policy counts for each key.' },
    ...CHANGEABLE,
  ];
  return (
    <CreateModal
      title="Create an override"
      specs={specs}
      create={(values) => client.POST('/api/v1/overrides', { body: values as never })}
      onClose={onClose}
    />
  );
}

const readOverride = (id: string) => () =>
  client.GET('/api/v1/overrides/{override_id}', { params: { path: { override_id: id } } });

function Edit({ of, onClose }: OverrideDialog) {
  const { id } = of;
  return (
    <EditModal
      title={`Edit the override of ${whoseOf(of)}`}
      id={id}
      specs={CHANGEABLE}
      read={readOverride(id)}
      save={(body, header) =>
        client.PATCH('/api/v1/overrides/{override_id}', {
          params: { path: { override_id: id }, header },
          body,
        })
      }
      onClose={onClose}
    />
  );
}

function End({ of, onClose }: OverrideDialog) {
  const { id, policy_name } = of;
  return (
    <ConfirmModal
      title={`End the override of ${whoseOf(of)}`}
      submit="End the override"
      danger
      id={id}
      read={readOverride(id)}
      act={(header) =>
        client.DELETE('/api/v1/overrides/{override_id}', { params: { path: { override_id: id }, header } })
      }
      onClose={onClose}
    >
      <p>
        The limit of <Name text={policy_name} /> applies again, also to what is spent already.
      </p>
    </ConfirmModal>
  );
}
