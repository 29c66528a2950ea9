// Writes sbom.cdx.json, the software bill of materials (CycloneDX 1.6), and THIRD_PARTY_NOTICES.txt, the licence texts of the packages
// that an installation contains. Both are derived from package-lock.json; the texts are read from the installed packages. With
// --check it writes nothing and fails if a committed file is stale.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

interface LockedPackage {
  readonly name?: string;
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

interface Component {
  /** Its path in the lock file, such as `node_modules/kysely`. */
  readonly path: string;
  readonly name: string;
  readonly purl: string;
  readonly locked: LockedPackage;
}

const root = fileURLToPath(new URL('..', import.meta.url));
const lockText = readFileSync(`${root}package-lock.json`, 'utf8');
const { packages } = JSON.parse(lockText) as { packages: Readonly<Record<string, LockedPackage>> };
const self = packages[''] as LockedPackage & { readonly name: string };

const purlOf = (name: string, version: string) => `pkg:npm/${name.replace('@', '%40')}@${version}`;

/** The packages of an installation: everything but development dependencies, each version once. */
function installedComponents(): Component[] {
  const byPurl = new Map<string, Component>();
  for (const [path, locked] of Object.entries(packages)) {
    if (path === '' || locked.dev) continue;
    const name = locked.name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const purl = purlOf(name, locked.version);
    if (!byPurl.has(purl)) byPurl.set(purl, { path, name, purl, locked });
  }
  return [...byPurl.values()].sort((a, b) => (a.purl < b.purl ? -1 : 1));
}

/** The package that Node.js resolves `name` to in the package at `path`; undefined if it is not installed, as for a peer. */
function resolvePackage(path: string, name: string): string | undefined {
  for (let parent = path; ; parent = parent.slice(0, Math.max(0, parent.lastIndexOf('/node_modules/')))) {
    const candidate = `${parent === '' ? '' : `${parent}/`}node_modules/${name}`;
    const locked = packages[candidate];
    if (locked) return purlOf(locked.name ?? name, locked.version);
    if (parent === '') return undefined;
  }
}

const dependenciesOf = (path: string, { dependencies = {}, optionalDependencies = {} }: LockedPackage) =>
  [...new Set(Object.keys({ ...dependencies, ...optionalDependencies }))]
    .flatMap((name) => resolvePackage(path, name) ?? [])
    .sort();

function licencesOf({ license }: LockedPackage) {
  if (license === undefined) return [];
  return [/[ ()]/.test(license) ? { expression: license } : { license: { id: license } }];
}

/** `sha512-<base64>` in the lock file is a hexadecimal digest in CycloneDX. */
function hashesOf({ integrity = '' }: LockedPackage) {
  return integrity.split(' ').flatMap((hash) => {
    const [, bits, base64] = /^sha(\d+)-(.+)$/.exec(hash) ?? [];
    return base64 === undefined ? [] : [{ alg: `SHA-${bits}`, content: Buffer.from(base64, 'base64').toString('hex') }];
  });
}

/** A UUID of version 8 from the content of the lock file, so that the same dependencies give the same document. */
function serialNumber(): string {
  const hex = createHash('sha256').update(lockText).digest('hex');
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function sbomText(components: readonly Component[]): string {
  const ownPurl = purlOf(self.name, self.version);
  const document = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: serialNumber(),
    version: 1,
    metadata: {
      lifecycles: [{ phase: 'pre-build' }],
      component: {
        type: 'application',
        'bom-ref': ownPurl,
        name: self.name,
        version: self.version,
        licenses: licencesOf(self),
        purl: ownPurl,
      },
    },
    components: components.map(({ name, purl, locked }) => ({
      type: 'library',
      'bom-ref': purl,
      name,
      version: locked.version,
      scope: locked.optional ? 'optional' : 'required',
      hashes: hashesOf(locked),
      licenses: licencesOf(locked),
      purl,
    })),
    dependencies: [
      { ref: ownPurl, dependsOn: dependenciesOf('', self) },
      ...components.map(({ path, purl, locked }) => ({ ref: purl, dependsOn: dependenciesOf(path, locked) })),
    ],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** The licence and notice files of a package; undefined if it is not installed or has none. */
function textsIn(path: string): string | undefined {
  const directory = `${root}${path}`;
  if (!existsSync(directory)) return undefined;
  const files = readdirSync(directory).filter((file) => /^(?:licen[cs]e|notice|copying)(?:[._-]|$)/i.test(file));
  if (files.length === 0) return undefined;
  const texts = files.sort().map((file) => readFileSync(`${directory}/${file}`, 'utf8'));
  return texts.map((text) => text.replaceAll(/[^\S\n]+\n/g, '\n').trim()).join('\n\n');
}

/** The section of a readme that contains the licence, in packages that have no file for it. */
function textInReadme(path: string): string | undefined {
  const file = `${root}${path}/README.md`;
  const text = existsSync(file)
    ? readFileSync(file, 'utf8')
        .split(/^#+ licen[cs]e$/im)[1]
        ?.trim()
    : undefined;
  return text?.includes('Permission is hereby granted') ? text : undefined;
}

const familyOf = (name: string) => (name.startsWith('@') ? name.split('/')[0] : name.split('-')[0]);

/**
 * The licence text of a package. Packages of other platforms are not installed, and some packages have no licence text: for these it
 * is the text of a package of the same scope with the same licence.
 */
function licenceText(component: Component, components: readonly Component[]): string {
  const textsOfPackage = component.locked.os === undefined ? textsIn(component.path) : undefined;
  if (textsOfPackage !== undefined) return textsOfPackage;
  const textOfReadme = textInReadme(component.path);
  if (textOfReadme !== undefined) return textOfReadme;
  const relatives = components
    .filter(
      ({ name, locked }) => familyOf(name) === familyOf(component.name) && locked.license === component.locked.license,
    )
    .sort((a, b) => Number(a.locked.os !== undefined) - Number(b.locked.os !== undefined));
  for (const { path } of relatives) {
    const text = textsIn(path);
    if (text !== undefined) return text;
  }
  throw new Error(`no licence text for ${component.purl}: run "npm ci"`);
}

function noticesText(components: readonly Component[]): string {
  const byText = new Map<string, string[]>();
  for (const component of components) {
    const text = licenceText(component, components);
    const line = `${component.name} ${component.locked.version} (${component.locked.license ?? 'see below'})`;
    byText.set(text, [...(byText.get(text) ?? []), line]);
  }
  const sections = [...byText].map(
    ([text, names]) => `${'='.repeat(80)}\n${names.join('\n')}\n${'-'.repeat(80)}\n${text}\n`,
  );
  return `Third-party notices

An installation of ${self.name} contains the following packages, each under its own licence. Which of the packages for
a single platform is installed depends on the platform.

${sections.join('\n')}`;
}

const components = installedComponents();
const documents: Readonly<Record<string, () => string>> = {
  'sbom.cdx.json': () => sbomText(components),
  'THIRD_PARTY_NOTICES.txt': () => noticesText(components),
};

for (const [name, text] of Object.entries(documents)) {
  const path = `${root}${name}`;
  if (!process.argv.includes('--check')) writeFileSync(path, text());
  else if (!existsSync(path) || readFileSync(path, 'utf8') !== text()) {
    console.error(`${name} is stale: run "npm run generate"`);
    process.exitCode = 1;
  }
}
