import type { components } from '@weighbridge/client';
import {
  createTeam,
  deleteTeam,
  freezeTeam,
  getTeam,
  unfreezeTeam,
  updateTeam,
} from '@weighbridge/client/operations';
import { useState } from 'react';
import { words } from '../api/choices.ts';
import { api, client } from '../api/client.ts';
import { isOperator, readsAll, useWhoami } from '../app/session.ts';
import { Badge, Button, LimitBar, Money, Name } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Form, SelectField, TextField } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Loaded, Page, Problem, Section } from '../ui/Page.tsx';
import { RowActions, useReload } from '../ui/resources.tsx';
import type { ShownFields } from '../ui/specs.ts';
import { type Column, Table } from '../ui/Table.tsx';
import { PolicyName } from './PolicyName.tsx';
import { Principals } from './Principals.tsx';

type Team = components['schemas']['Team'];
type Member = components['schemas']['TeamMember'];

export function Teams() {
  const whoami = useWhoami();
  const mayWrite = isOperator(whoami);
  const { dialog, open, close, create, edit, remove, confirm } = useResource(TEAMS);
  const query = api.useQuery('get', '/api/v1/teams', { params: { query: { page_size: 500 } } });
  const freeze = (team: Team) =>
    confirm(team.frozen ? unfreezeTeam : freezeTeam, team, {
      title: `${team.frozen ? 'Unfreeze' : 'Freeze'} ${team.name}`,
      submit: team.frozen ? 'Unfreeze the team' : 'Freeze the team',
      danger: !team.frozen,
      isUnread: true,
      text: team.frozen
        ? 'Requests of the team are served again.'
        : 'Every request of the team, and of teams below it, is refused until it is unfrozen.',
    });
  const actions = (team: Team): Action[] => [
    { label: 'Members', run: () => open(<Members team={team} onClose={close} />) },
    ...(mayWrite
      ? [
          { label: 'Edit', run: () => edit(team) },
          {
            label: team.frozen ? 'Unfreeze' : 'Freeze',
            run: () => freeze(team),
          },
          { label: 'Delete', danger: true, run: () => remove(team) },
        ]
      : []),
  ];
  return (
    <Page
      title="Principals & teams"
      lead="A team’s policy counts for its members, and for the teams below it."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => create()}>
            Create a team
          </Button>
        )
      }
    >
      <Section title="Teams">
        <Loaded query={query}>
          {({ data }) => (
            <Table<Placed>
              caption="Teams"
              rows={inTree(data)}
              rowKey={({ team }) => team.id}
              columns={[
                {
                  title: 'Team',
                  value: ({ team, depth }) => (
                    <>
                      {'\u2003'.repeat(depth)}
                      <Name text={team.name} />
                    </>
                  ),
                  wrap: true,
                },
                {
                  title: 'State',
                  value: ({ team: { frozen } }) => (
                    <Badge tone={frozen ? 'bad' : 'good'}>{frozen ? 'frozen' : 'active'}</Badge>
                  ),
                },
                ...(readsAll(whoami) ? POLICY_COLUMNS : []),
                {
                  title: 'Actions',
                  value: ({ team }) => <RowActions of={team.name} actions={actions(team)} />,
                  end: true,
                },
              ]}
              empty={<p>No team. A team groups people, so that a budget counts for all of them.</p>}
            />
          )}
        </Loaded>
      </Section>
      {readsAll(whoami) && <Principals />}
      {dialog}
    </Page>
  );
}

interface Placed {
  readonly team: Team;
  readonly depth: number;
}

const POLICY_COLUMNS: readonly Column<Placed>[] = [
  { title: 'Policy of the whole team', value: ({ team }) => <PolicyName id={team.policy_id} />, wrap: true },
  {
    title: 'Policy of each member',
    value: ({ team }) => <PolicyName id={team.member_policy_id} />,
    wrap: true,
  },
];

/** Each team below its parent. One whose parent can't be seen stands at the top. */
function inTree(teams: readonly Team[]): Placed[] {
  const known = new Set(teams.map(({ id }) => id));
  const parent = ({ parent_team_id: above }: Team) => (above && known.has(above) ? above : '');
  const place = (above: string, depth: number): Placed[] =>
    teams
      .filter((team) => parent(team) === above)
      .flatMap((team) => [{ team, depth }, ...place(team.id, depth + 1)]);
  return place('', 0);
}

const FIELDS: ShownFields<keyof components['schemas']['TeamChanges']> = {
  name: {},
  parent_team_id: {},
  policy_id: {
    label: 'Policy of the whole team',
    hint: 'Limits all requests of the team and of the teams below it together.',
  },
  member_policy_id: {
    label: 'Policy of each member',
    hint: 'Governs members’ keys that have no policy.',
  },
};

export const TEAMS: Resource<Team> = {
  noun: 'team',
  create: createTeam,
  read: getTeam,
  update: updateTeam,
  remove: deleteTeam,
  fields: FIELDS,
  removal: () => 'Its members stay, without a team. What was spent stays in the ledger under its name.',
};

interface TeamDialog {
  readonly team: Team;
  readonly onClose: () => void;
}

/** What the team and each member spent, and who belongs to it. */
function Members({ team: { id, name }, onClose }: TeamDialog) {
  const mayWrite = isOperator(useWhoami());
  const reload = useReload();
  const query = api.useQuery('get', '/api/v1/teams/{team_id}', { params: { path: { team_id: id } } });
  const path = (principal_id: string) => ({ params: { path: { team_id: id, principal_id } } });
  const add = async ({ principal_id = '', role = 'member' }: Readonly<Record<string, string>>) => {
    const body = { role: role as Member['role'] };
    await client.PUT('/api/v1/teams/{team_id}/members/{principal_id}', { ...path(principal_id), body });
    await reload();
  };
  const remove = async (principal_id: string) => {
    await client.DELETE('/api/v1/teams/{team_id}/members/{principal_id}', path(principal_id));
    await reload();
  };
  const [failure, setFailure] = useState<unknown>();
  const attempt = (change: Promise<void>) => {
    setFailure(undefined);
    change.catch(setFailure);
  };
  return (
    <Modal title={`Members of ${name}`} onClose={onClose} wide>
      <Loaded query={query}>
        {({ members, member_count, counter }) => (
          <>
            <p>
              {member_count} members
              {counter && (
                <>
                  {'; together they spent '}
                  <Money micro={counter.spent_micro_usd} />
                  {counter.limit_micro_usd !== null && (
                    <>
                      {' of '}
                      <Money micro={counter.limit_micro_usd} />
                    </>
                  )}
                  {' under '}
                  <Name text={counter.policy_name} />
                </>
              )}
              .
            </p>
            <Table<Member>
              caption={`Members of ${name}`}
              rows={members}
              rowKey={({ principal_id }) => principal_id}
              columns={[
                {
                  title: 'Principal',
                  value: ({ principal_id, active }) => (
                    <>
                      <Name text={principal_id} /> {!active && <Badge tone="bad">deactivated</Badge>}
                    </>
                  ),
                  wrap: true,
                },
                { title: 'Role', value: ({ role }) => role },
                { title: 'Spent', value: ({ counter: own }) => <Spent of={own} />, end: true },
                ...(mayWrite
                  ? [
                      {
                        title: 'Actions',
                        value: (member: Member) => (
                          <RowActions
                            of={member.principal_id}
                            actions={[
                              {
                                label: member.role === 'lead' ? 'Make a member' : 'Make a lead',
                                run: () =>
                                  attempt(
                                    add({
                                      principal_id: member.principal_id,
                                      role: member.role === 'lead' ? 'member' : 'lead',
                                    }),
                                  ),
                              },
                              {
                                label: 'Remove',
                                danger: true,
                                run: () => attempt(remove(member.principal_id)),
                              },
                            ]}
                          />
                        ),
                        end: true,
                      },
                    ]
                  : []),
              ]}
              empty={<p>No one belongs to this team yet.</p>}
            />
          </>
        )}
      </Loaded>
      {failure !== undefined && <Problem error={failure} />}
      {mayWrite && (
        <Form submit="Add" onSubmit={add} onCancel={onClose} cancel="Close">
          <TextField label="Principal" name="principal_id" required />
          <SelectField label="Role" name="role" options={words('member', 'lead')} />
        </Form>
      )}
    </Modal>
  );
}

function Spent({ of }: { of: Member['counter'] }) {
  if (!of) return <>–</>;
  return (
    <>
      <Money micro={of.spent_micro_usd} />
      {of.limit_micro_usd !== null && (
        <LimitBar spent={of.spent_micro_usd} limit={of.limit_micro_usd} label="Spent of the budget" />
      )}
    </>
  );
}
