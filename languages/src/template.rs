//! Folders of policies that are made of a file: of the weights of a network, or of an expression.
//!
//! Such a folder is one of Rust. This module writes no file.

use fluxgate_guest::scaffold as rust;
use policy_formula::expression::Expression;

use crate::scaffold::check_name;
use crate::weights::Weights;

/// A kind of policy that is made of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// `mlp-kernel`: a network of two layers or more that gets one row at a time.
    MlpKernel,
    /// `mlp-flat`: a network that gets all rows at once.
    MlpFlat,
    /// `linear`: a weighted sum of the features of a row.
    Linear,
    /// `formula`: an expression over a job, in a text file.
    Formula,
}

impl Template {
    /// All templates.
    pub const ALL: [Template; 4] =
        [Template::MlpKernel, Template::MlpFlat, Template::Linear, Template::Formula];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Template::MlpKernel => "mlp-kernel",
            Template::MlpFlat => "mlp-flat",
            Template::Linear => "linear",
            Template::Formula => "formula",
        }
    }

    /// The template of this name.
    ///
    /// # Errors
    /// A sentence that lists the names.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Template::ALL.into_iter().find(|template| template.name() == name);
        found.ok_or_else(|| {
            let all = Template::ALL.map(Template::name).join(", ");
            format!("`{name}` is no template for policies; accepted are {all}")
        })
    }

    /// True for the one of these that a file of weights is for.
    fn is_for(self, weights: &Weights) -> bool {
        let flat = weights.said.get("network").is_some_and(|kind| kind == "flat");
        match self {
            Template::MlpKernel => !flat && weights.places.len() > 1,
            Template::MlpFlat => flat,
            Template::Linear => !flat && weights.places.len() == 1,
            Template::Formula => false,
        }
    }
}

macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => { [$(($path, include_str!(concat!("../../", $folder, "/", $path)))),+] };
}

/// The crate of features and networks, complete but for its template.
const NETWORKS: [(&str, &str); 13] = files!["networks":
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "rustfmt.toml",
    "src/features.rs",
    "src/lanes.rs",
    "src/lib.rs",
    "src/model.rs",
    "src/network.rs",
    "src/noise.rs",
    "src/pick.rs",
    "src/policy.rs",
    "src/window.rs",
];

/// The template of a network, with placeholders.
const NETWORK: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("../../networks/template/Cargo.toml.in")),
    (".cargo/config.toml", include_str!("../../networks/template/cargo-config.toml")),
    ("README.md", include_str!("../../networks/template/README.md")),
    ("src/lib.rs", include_str!("../../networks/template/lib.rs")),
];

/// The policy of an expression.
const FORMULA: [(&str, &str); 4] =
    files!["policies/formula": "src/expression.rs", "src/lib.rs", "src/named.rs", "README.md"];

/// The name of the file of weights in a folder.
pub const WEIGHTS: &str = "weights.safetensors";

/// Every file of a new policy's folder, as (path relative to it, contents). `file` is what it is made of: weights, or
/// the text of an expression in which lines that begin with `#` do not count.
///
/// # Errors
/// The fault of the name or of the file: the field, what was found and what is accepted.
pub fn files(template: Template, name: &str, file: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    check_name(name)?;
    // SDK and ignored files are those of every policy in Rust.
    let kept =
        |path: &str| path.starts_with("sdk/") || path == ".gitignore" || path == "fluxgate-policy.toml";
    let mut all: Vec<(String, String)> = rust::files(name)?;
    let own = all.iter().find(|(path, _)| path == "Cargo.toml").map(|(_, text)| text.clone());
    all.retain(|(path, _)| kept(path));
    let filled = |text: &str| {
        let text = text.replace("policy_my_policy", &format!("policy_{}", name.replace('-', "_")));
        text.replace("MyPolicy", &rust::type_name(name)).replace("my-policy", name)
    };
    let mut weights_file = None;
    match template {
        Template::Formula => {
            all.push((
                "Cargo.toml".to_owned(),
                own.unwrap_or_default().replace(SDK, &format!("{SDK}\nlibm = \"0.2\"")),
            ));
            all.extend(rust::files(name)?.into_iter().filter(|(path, _)| path == ".cargo/config.toml"));
            all.extend(formula(name, file)?);
        }
        _ => {
            let weights = Weights::read(file)?;
            if !template.is_for(&weights) {
                let right = Template::ALL.into_iter().find(|other| other.is_for(&weights));
                return Err(format!(
                    "the template {} is not for this file, {} is",
                    template.name(),
                    right.map_or("none", Template::name)
                ));
            }
            all.extend(NETWORK.map(|(path, text)| (path.to_owned(), filled(text))));
            all.extend(NETWORKS.map(|(path, text)| {
                (format!("networks/{path}"), text.replace("path = \"../guest-sdk\"", "path = \"../sdk\""))
            }));
            all.push(("src/model.rs".to_owned(), model(&weights, file.len())));
            weights_file = Some((WEIGHTS.to_owned(), file.to_vec()));
        }
    }
    let texts = all.into_iter().map(|(path, text)| (path, text.into_bytes()));
    Ok(texts.chain(weights_file).collect())
}

/// The line of a policy's `Cargo.toml` that names the SDK.
const SDK: &str = "fluxgate-guest = { path = \"sdk\" }";

/// The source of a module with the contents of a file of weights.
fn model(weights: &Weights, bytes: usize) -> String {
    let text = |key: &str| format!("{:?}", weights.said.get(key).map_or("", String::as_str));
    let fields =
        ["features", "scales", "window", "rows", "network", "activation", "mode", "backfill", "ties"];
    let fields: Vec<String> = fields.iter().map(|key| format!("        {key}: {},\n", text(key))).collect();
    let place = |place: &crate::weights::Place| {
        format!("    ({}, {}, {}, {}),\n", place.inputs, place.outputs, place.weights, place.bias)
    };
    let places: Vec<String> = weights.places.iter().map(place).collect();
    format!(
        "//! The network of the file `{WEIGHTS}`: its shape and its weights. `fluxgate policy new` wrote it.

use fluxgate_networks::model::{{Model, Parts}};
use fluxgate_networks::policy::layers;

/// The rule of the policy, in a sentence.
pub const SUMMARY: &str = {summary:?};

/// The file. A section of the component has it too, so that `fluxgate policy verify` can read it.
static FILE: [u8; {bytes}] = *include_bytes!(\"../{WEIGHTS}\");

#[cfg(target_arch = \"wasm32\")]
#[used]
#[unsafe(link_section = \"{section}\")]
static SECTION: [u8; {bytes}] = *include_bytes!(\"../{WEIGHTS}\");

/// Of each layer its inputs and outputs, and the places of its weights and biases in the file, in bytes.
const LAYERS: [(usize, usize, usize, usize); {count}] = [
{places}];

/// The model.
///
/// # Panics
/// Never with the file that this was written for.
pub fn model() -> Model {{
    let parts = Parts {{
{fields}        layers: layers(&FILE, &LAYERS),
    }};
    Model::of(&parts).unwrap_or_else(|wrong| panic!(\"{{wrong}}\"))
}}
",
        summary = weights.summary(),
        section = crate::weights::SECTION,
        count = weights.places.len(),
        places = places.concat(),
        fields = fields.concat(),
    )
}

/// The files of a policy with an expression of its own.
fn formula(name: &str, file: &[u8]) -> Result<Vec<(String, String)>, String> {
    let text = std::str::from_utf8(file)
        .map_err(|error| format!("found bytes that are no text ({error}), accepted is an expression"))?;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    let score = lines.join(" ").trim().to_owned();
    Expression::parse(&score).map_err(|wrong| wrong.to_string())?;
    let own = format!("\"score\", Kind::Text, {score:?},");
    let test = "#[cfg(test)]\nmod tests {\n    use super::*;\n    use fluxgate_guest::bench::{Bench, configured};\n\n    \
         #[test]\n    fn all_jobs_are_started_some_time() {\n        let mut bench = Bench::new(8);\n        \
         for id in 1..=40 {\n            bench.job(id).cores(1 + (id % 8) as u32).duration(60.0 * id as f64).submit();\n        \
         }\n        let mut policy: Formula = configured(&[]).unwrap();\n        \
         assert_eq!(bench.run_to_end(&mut policy).len(), 40);\n    }\n}\n";
    let changed = |path: &str, text: &str| match path {
        "src/lib.rs" => text
            .replace("\"score\", Kind::Text, \"fcfs\",", &own)
            .replace("Info::new(\"formula\",", &format!("Info::new({name:?},"))
            .replace("#[cfg(test)]\nmod tests;\n", test),
        // Links into the repository lead nowhere here.
        "README.md" => text
            .replace("[easy](../easy/README.md)", "easy")
            .replace("[docs/research.md](../../docs/research.md)", "its page on research")
            .replace("# formula:", &format!("# {name}:")),
        _ => text.to_owned(),
    };
    Ok(FORMULA.iter().map(|(path, text)| ((*path).to_owned(), changed(path, text))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tests::{SAID, file};

    fn text(files: &[(String, Vec<u8>)], path: &str) -> String {
        let found = files.iter().find(|(each, _)| each == path).unwrap_or_else(|| panic!("no {path}"));
        String::from_utf8(found.1.clone()).unwrap()
    }

    #[test]
    fn res_43_a_folder_has_all_that_a_network_needs() {
        let weights = file(&SAID, &[(8, 32), (32, 1)]);
        let files = files(Template::MlpKernel, "night-owl", &weights).unwrap();
        assert!(
            text(&files, "src/lib.rs").contains("export_policy!(NightOwl: scheduling, observing, state);")
        );
        assert!(text(&files, "Cargo.toml").contains("opt-level = 3"));
        assert!(text(&files, "networks/Cargo.toml").contains("path = \"../sdk\""));
        assert!(text(&files, "src/model.rs").contains("backfill: \"none\","));
        assert!(files.contains(&(WEIGHTS.to_owned(), weights)));
        for (path, text) in files.iter().filter(|(path, _)| !path.starts_with("sdk/") && path != WEIGHTS) {
            let text = String::from_utf8_lossy(text);
            assert!(!text.contains("my-policy") && !text.contains("MyPolicy"), "{path}");
        }
    }

    #[test]
    fn res_43_a_template_that_is_not_for_the_file_names_the_right_one() {
        let kernel = file(&SAID, &[(8, 32), (32, 1)]);
        let linear = file(&SAID, &[(8, 1)]);
        let error = files(Template::Linear, "x", &kernel).unwrap_err();
        assert_eq!(error, "the template linear is not for this file, mlp-kernel is");
        let error = files(Template::MlpFlat, "x", &linear).unwrap_err();
        assert_eq!(error, "the template mlp-flat is not for this file, linear is");
        assert!(Template::named("lenet").unwrap_err().contains("mlp-kernel, mlp-flat, linear, formula"));
        assert!(files(Template::Linear, "Bad Name", &linear).is_err());
    }

    #[test]
    fn res_43_an_expression_becomes_the_default_of_a_folder() {
        let made =
            files(Template::Formula, "mine", b"# short and narrow first\nduration * sqrt(cores)\n").unwrap();
        let source = text(&made, "src/lib.rs");
        assert!(source.contains("\"score\", Kind::Text, \"duration * sqrt(cores)\","), "{source}");
        assert!(source.contains("Info::new(\"mine\","));
        assert!(source.contains("fn all_jobs_are_started_some_time"));
        assert!(text(&made, "Cargo.toml").contains("libm = \"0.2\""));
        assert!(files(Template::Formula, "mine", b"duration *").is_err());
        assert!(files(Template::Formula, "mine", &[0xff]).unwrap_err().contains("no text"));
    }

    #[test]
    fn what_is_in_the_folder_of_networks_is_in_the_list() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../networks/src");
        let mut there: Vec<String> = std::fs::read_dir(root)
            .unwrap()
            .map(|entry| format!("src/{}", entry.unwrap().file_name().to_string_lossy()))
            .collect();
        there.sort();
        let listed: Vec<&str> =
            NETWORKS.iter().map(|(path, _)| *path).filter(|path| path.starts_with("src/")).collect();
        assert_eq!(there, listed);
    }
}
