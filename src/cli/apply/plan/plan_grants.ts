// Plans the grants of users and roles: those that are declared are granted, and other grants of declared roles are revoked with `--prune`.
import { collectionUri, objectUri } from '../files/canonical_uri.ts';
import { type Declaration, type Fields, titleOf } from '../files/declaration.ts';
import { isOfKind, type Kind, kinds } from '../files/kinds.ts';
import type { PlanContext } from './plan_objects.ts';
import { inParallel } from './server_reader.ts';

interface Holder {
  /** The kind of its grants. */
  readonly kind: Kind;
  readonly name: string;
  readonly role: Declaration | undefined;
  readonly grants: readonly Declaration[];
}

const grantKey = (privilege: unknown, on: unknown): string => `${String(privilege)} ${String(on)}`;

/** `recreated`: the present URIs of objects whose grants end because they are created again. */
export async function planGrants(
  declarations: readonly Declaration[],
  recreated: readonly string[],
  context: PlanContext,
): Promise<void> {
  await inParallel(holdersOf(declarations), (holder) => planHolder(holder, recreated, context));
  await inParallel(recreated, (uri) => noteEnding(uri, declarations, context));
}

function holdersOf(declarations: readonly Declaration[]): readonly Holder[] {
  const roles = declarations.filter((each) => isOfKind(each, 'role'));
  const grants = declarations.filter((each) => isOfKind(each, 'grant'));
  return kinds()
    .filter(({ holder }) => holder !== undefined)
    .flatMap((kind) => {
      const own = grants.filter((each) => each.kind === kind);
      const ofRoles = kind.holder === 'role' ? roles : [];
      const names = new Set([...own.map(({ path }) => path[0] ?? ''), ...ofRoles.map(({ path }) => path[0] ?? '')]);
      return [...names].map((name) => ({
        kind,
        name,
        role: ofRoles.find(({ path }) => path[0] === name),
        grants: own.filter(({ path }) => path[0] === name),
      }));
    });
}

async function planHolder(holder: Holder, recreated: readonly string[], context: PlanContext): Promise<void> {
  const { kind, name, role, grants } = holder;
  const { reader, builder, names } = context;
  const present = role ? (names.pathOf(role.path)[0] ?? name) : name;
  const holderUri = collectionUri(kind, [present]).replace(/\/[^/]*$/, '');
  const isThere = (await reader.get(holderUri)) !== undefined;
  if (!isThere && !role) {
    for (const grant of grants)
      builder.refuse(
        grant,
        titleOf(grant),
        `there is no ${kind.holder} ${JSON.stringify(name)}; create it first${kind.holder === 'role' ? ', or declare it' : ' with `tabularium users create`'}`,
      );
    return;
  }
  const records = isThere ? await reader.list(collectionUri(kind, [present])) : [];
  const standing = records.filter(({ isDropped, on }) => isDropped !== true && !recreated.includes(String(on)));
  const known = new Map(
    standing.map((record) => [grantKey(record.privilege, names.futureUri(String(record.on))), record]),
  );
  for (const grant of grants) {
    const { privilege, on } = grant.fields;
    if (known.delete(grantKey(privilege, on))) continue;
    builder.add({
      action: 'create',
      phase: 'grants',
      title: titleOf(grant),
      place: grant.place,
      differences: [],
      category: kind.category,
      operation: 'create',
      uri: collectionUri(kind, [name]),
      fields: { privilege, on },
    });
  }
  if (role) for (const record of known.values()) planUndeclared(holder, present, record, context);
}

function planUndeclared(
  { kind, name, role }: Holder,
  present: string,
  record: Fields,
  { builder, prune }: PlanContext,
): void {
  const title = titleOf({ kind, path: [name, String(record.privilege), String(record.on)] });
  if (!prune) {
    builder.undeclared.push({ title });
    return;
  }
  const uri = objectUri(kind, [present, String(record.grantId)]);
  builder.add({
    action: 'drop',
    phase: 'revoke',
    title,
    place: role?.place,
    differences: [],
    category: kind.category,
    operation: 'delete',
    uri,
    fields: {},
    expected: { key: uri, uri, record },
  });
}

/** Grants that no file declares, on views that are created again, would end without a notice. */
async function noteEnding(
  uri: string,
  declarations: readonly Declaration[],
  { reader, builder, names }: PlanContext,
): Promise<void> {
  const [users] = kinds().flatMap(({ category, holder }) =>
    holder === 'user' && category.parent ? [category.parent] : [],
  );
  if (!users) return;
  const found = await reader.search(`/api/v2/${users.name}/search_grants`, { on: uri }, 'grants');
  for (const { on, privilege, via } of found) {
    const holder = via as { readonly category: string; readonly name: string };
    const kind = kinds().find(
      ({ category }) => category.parent?.name === holder.category && category.idField !== undefined,
    );
    if (on !== uri || !kind) continue;
    const isDeclared = declarations.some(
      (each) =>
        each.kind === kind &&
        (names.pathOf(each.path.slice(0, 1))[0] ?? '') === holder.name &&
        each.fields.privilege === privilege &&
        each.fields.on === names.futureUri(uri),
    );
    const title = titleOf({ kind, path: [holder.name, String(privilege), uri] });
    if (!isDeclared)
      builder.notes.push(`${title} ends, because the object is created again and the files do not declare the grant`);
  }
}
