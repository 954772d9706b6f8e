"""The Conan recipe of distrun: the program, and the libraries for C++ projects.

    conan create packaging/conan --build=missing -s compiler.cppstd=20
    conan create packaging/conan --build=missing -s compiler.cppstd=20 -o 'distrun/*:libtorch=DIR'

Without a LibTorch the package contains `distrun`, `distrun::common` and `distrun::store`; with one also
`distrun::backends`, `distrun::sharing` and `distrun::parallel`.  Conan has no package of LibTorch, so the option is the
folder of one.  A project finds the libraries by find_package(distrun), as it does without Conan.
"""
import os
import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.scm import Version


class Distrun(ConanFile):
    name = "distrun"
    description = "Starts, connects, watches and tests the processes of a distributed PyTorch program"
    license = "BSD-3-Clause"
    topics = ("pytorch", "torchrun", "distributed", "mpi")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"libtorch": ["ANY"]}
    default_options = {"libtorch": ""}

    def set_version(self):
        cmake = pathlib.Path(self.recipe_folder, "../../CMakeLists.txt").read_text(encoding="utf-8")
        self.version = re.search(r"^project\(distrun VERSION ([0-9.]+)", cmake, re.MULTILINE)[1]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        copy(self, "CMakeLists.txt", root, self.export_sources_folder)
        copy(self, "LICENSE", root, self.export_sources_folder)
        for folder in ("include", "common", "store", "evidence", "pages", "recording", "launcher", "backends", "sharing", "parallel", "testsuites",
                       "cli", "cmake", "packaging", "examples/library"):
            copy(self, f"{folder}/*", root, self.export_sources_folder, excludes="*/__pycache__/*")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("distrun runs on Linux only")
        check_min_cppstd(self, 20)
        if self.settings.compiler == "gcc" and Version(self.settings.compiler.version) < 12:
            raise ConanInvalidConfiguration("distrun needs GCC 12 or newer")

    def requirements(self):
        self.requires("boost/[>=1.81 <2]", options={"header_only": True}, transitive_headers=True)
        self.requires("cli11/[>=2.1 <3]")
        self.requires("elfutils/[>=0.188 <1]")
        self.requires("fmt/[>=9.1 <12]")
        self.requires("minizip/[>=1.2 <2]")
        self.requires("nlohmann_json/[>=3.11 <4]")
        self.requires("pugixml/[>=1.13 <2]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        for part in ("TESTS", "BENCH", "EXAMPLES", "SUITES"):
            toolchain.cache_variables[f"DISTRUN_BUILD_{part}"] = False
        toolchain.cache_variables["DISTRUN_LIBTORCH"] = str(self.options.libtorch)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The package has its own distrunConfig.cmake.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append("lib/cmake/distrun")
        self.cpp_info.libs = ["distrun_store", "distrun_common"]  # For generators other than CMake's.
        self.runenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
